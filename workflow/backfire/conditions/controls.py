"""Controls: each answers an objection to what the other conditions are taken to show."""

from __future__ import annotations

import re

from backfire.conditions.padding import pad
from backfire.conditions.registry import Context, Message, condition
from backfire.conditions.writing import after, before, description, instructed, record, turns
from backfire.items import Item, Turn

PLACEHOLDER = "[call left out]"
"""Stands for an assistant turn whose call is withheld."""


@condition(
    "pre_instruct",
    "no attempt yet; the system prompt asks not to repeat a failed attempt",
    kind="control",
)
def pre_instruct(item: Item, ctx: Context) -> list[Message] | None:
    return instructed(before(item))


@condition(
    "neut_echo",
    "the attempt and an acknowledgement with the words that the error shares with the call, "
    "filled with dots to the error's length in tokens",
    kind="control",
    by_model=True,
)
def neut_echo(item: Item, ctx: Context) -> list[Message] | None:
    neutral, error = record(item, "neut"), record(item, "fail")
    if neutral is None or error is None:
        return None
    words = [neutral.observation, *echoed(error.observation, item.failed_action)]
    text = pad(" ".join(words), ctx.count_tokens(error.observation), ctx)
    return after(item, Turn(item.failed_action, text))


@condition(
    "fail_unrelated",
    "a failing call of another tool, without a value in common with this one, and its error",
    kind="control",
)
def fail_unrelated(item: Item, ctx: Context) -> list[Message] | None:
    return after(item, item.unrelated)


@condition(
    "neut_unrelated",
    "the same call of another tool and an acknowledgement without valence",
    kind="control",
)
def neut_unrelated(item: Item, ctx: Context) -> list[Message] | None:
    if item.unrelated is None:
        return None
    return after(item, record(item, "neut", action=item.unrelated.action))


@condition(
    "abstract_turn",
    "a description of the failure after an assistant turn whose call is left out",
    kind="form",
)
def abstract_turn(item: Item, ctx: Context) -> list[Message] | None:
    note = description(item)
    return None if note is None else [*before(item), *turns([Turn(PLACEHOLDER, note)])]


def echoed(observation: str, action: str) -> list[str]:
    """The words of an observation that also stand in the action, in order, as they stand.

    What hangs together without a space is one word, such as a date; the marks around it
    do not count.
    """
    words = []
    for chunk in observation.split():
        bare = re.sub(r"^\W+|\W+$", "", chunk)
        if bare and re.search(rf"(?<!\w){re.escape(bare)}(?!\w)", action):
            words.append(bare)
    return words
