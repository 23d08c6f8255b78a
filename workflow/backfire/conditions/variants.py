"""The published study's variants of the record."""

from __future__ import annotations

from backfire.conditions.padding import pad
from backfire.conditions.registry import Context, Message, condition
from backfire.conditions.writing import (
    after,
    attempt,
    instructed,
    noted,
    opening,
    record,
    turns,
)
from backfire.items import Item, Turn


@condition(
    "neut_pad",
    "the attempt and an acknowledgement, filled with dots to the error's length in tokens",
    kind="reference",
    by_model=True,
)
def neut_pad(item: Item, ctx: Context) -> list[Message] | None:
    neutral, error = record(item, "neut"), record(item, "fail")
    if neutral is None or error is None:
        return None
    text = pad(neutral.observation, ctx.count_tokens(error.observation), ctx)
    return after(item, Turn(item.failed_action, text))


@condition("fail_terse", "the attempt and its error in a few words", kind="message", gold=True)
def fail_terse(item: Item, ctx: Context) -> list[Message] | None:
    return attempt(item, "terse")


@condition("fail_verbose", "the attempt and its error with a hint and more words", kind="message")
def fail_verbose(item: Item, ctx: Context) -> list[Message] | None:
    return attempt(item, "verbose")


@condition("fail_echo", "the attempt and its error, which repeats the call", kind="message")
def fail_echo(item: Item, ctx: Context) -> list[Message] | None:
    return attempt(item, "echo")


@condition(
    "fail_instruct",
    "the attempt and its error; the system prompt asks not to repeat a failed attempt",
    kind="message",
    baseline="pre_instruct",
)
def fail_instruct(item: Item, ctx: Context) -> list[Message] | None:
    return instructed(attempt(item, "fail"))


@condition(
    "fail_early",
    "the attempt and its error right after the goal, the whole history following them",
    kind="form",
)
def fail_early(item: Item, ctx: Context) -> list[Message] | None:
    failed = record(item, "fail")
    if failed is None or not item.history:
        return None
    return [*opening(item), *turns([failed, *item.history])]


@condition("fail_twice", "the attempt and its error, two times over", kind="form")
def fail_twice(item: Item, ctx: Context) -> list[Message] | None:
    return after(item, record(item, "fail"), times=2)


@condition("fail_thrice", "the attempt and its error, three times over", kind="form")
def fail_thrice(item: Item, ctx: Context) -> list[Message] | None:
    return after(item, record(item, "fail"), times=3)


@condition("fail_other", "another failing attempt at the same step and its error", kind="control")
def fail_other(item: Item, ctx: Context) -> list[Message] | None:
    return after(item, item.other)


@condition(
    "abstract_min",
    "a note that an attempt has failed, neither which nor how",
    kind="form",
)
def abstract_min(item: Item, ctx: Context) -> list[Message] | None:
    return noted(item, "Note: an earlier attempt failed.")
