"""Backfire measures whether a recorded failure makes a language model repeat it."""
