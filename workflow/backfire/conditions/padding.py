"""Text of a given length in tokens that says nothing."""

from __future__ import annotations

from backfire.conditions.registry import Context

FILLERS = (" .", " -", ".")
"""What padding is made of, tried in turn: a tokenizer may join repeats of one or another."""

CLOSE = 2
"""Tokens by which a padded text may miss its length and still count as matched."""


def pad(text: str, length: int, ctx: Context) -> str:
    """The text followed by filler, its length in tokens as near to `length` as can be had.

    A text that is longer already comes back as it is.
    """
    best, missed = text, abs(length - ctx.count_tokens(text))
    for filler in FILLERS:
        if missed == 0 or ctx.count_tokens(best) > length:
            break
        padded = _filled(text, filler, length, ctx)
        distance = abs(length - ctx.count_tokens(padded))
        if distance < missed:
            best, missed = padded, distance
    return best


def _filled(text: str, filler: str, length: int, ctx: Context) -> str:
    """The text with as many fillers as fit into `length` tokens."""
    low, high = 0, 1
    while high <= 4 * length and ctx.count_tokens(text + filler * high) <= length:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        if ctx.count_tokens(text + filler * middle) <= length:
            low = middle
        else:
            high = middle
    return text + filler * low
