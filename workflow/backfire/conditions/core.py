"""The conditions of the main study. System prompt, goal and history are the same in all."""

from __future__ import annotations

from backfire.conditions.registry import Context, Message, condition
from backfire.conditions.writing import attempt, before, description, noted
from backfire.items import Item


@condition(
    "pre",
    "no attempt yet: system prompt, goal and history",
    every_candidate=True,
    kind="reference",
)
def pre(item: Item, ctx: Context) -> list[Message] | None:
    return before(item)


@condition("fail", "the attempt and its error", every_candidate=True, kind="reference")
def fail(item: Item, ctx: Context) -> list[Message] | None:
    return attempt(item, "fail")


@condition("succ", "the attempt and a counterfactual success", kind="reference")
def succ(item: Item, ctx: Context) -> list[Message] | None:
    return attempt(item, "succ")


@condition("neut", "the attempt and an acknowledgement without valence", kind="reference")
def neut(item: Item, ctx: Context) -> list[Message] | None:
    return attempt(item, "neut")


@condition(
    "abstract",
    "a description of the failure; the call and its turn are absent",
    every_candidate=True,
    kind="form",
)
def abstract(item: Item, ctx: Context) -> list[Message] | None:
    return noted(item, description(item))
