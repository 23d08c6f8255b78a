"""The notations of deployed harnesses. Each rewrites the history too, so has its own baseline."""

from __future__ import annotations

import json
from collections.abc import Iterable

from backfire.conditions.registry import Context, Message, condition
from backfire.conditions.writing import opening, record, turns
from backfire.environments.toolshed.calls import ParseError, parse
from backfire.items import Item, Turn

STATUSES = {"OK: ": "ok", "Error: ": "error"}
"""How observations open that say how a call went."""


def structured(observation: str, status: str | None = None) -> str:
    """An observation as a JSON object, with what it says and no more.

    Args:
        status: how the call went, where that is known otherwise.
    """
    for opened, meaning in STATUSES.items():
        if observation.startswith(opened):
            status = meaning
            observation = observation.removeprefix(opened)
    known = {} if status is None else {"status": status}
    return json.dumps({**known, "message": observation}, ensure_ascii=False)


@condition("pre_json", "no attempt yet; observations are JSON objects", kind="control")
def pre_json(item: Item, ctx: Context) -> list[Message] | None:
    return _with_json(item, [])


@condition(
    "fail_json",
    "the attempt and its error; observations are JSON objects of the same content",
    kind="format",
    baseline="pre_json",
)
def fail_json(item: Item, ctx: Context) -> list[Message] | None:
    failed = record(item, "fail")
    if failed is None:
        return None
    return _with_json(item, [Turn(failed.action, structured(failed.observation, "error"))])


def _with_json(item: Item, last: list[Turn]) -> list[Message]:
    history = [Turn(turn.action, structured(turn.observation)) for turn in item.history]
    return [*opening(item), *turns([*history, *last])]


@condition(
    "pre_tool_role",
    "no attempt yet; observations stand in the chat template's tool role",
    kind="control",
)
def pre_tool_role(item: Item, ctx: Context) -> list[Message] | None:
    return _in_tool_role(item, ctx, item.history)


@condition(
    "fail_tool_role",
    "the attempt and its error; observations stand in the chat template's tool role",
    kind="format",
    baseline="pre_tool_role",
)
def fail_tool_role(item: Item, ctx: Context) -> list[Message] | None:
    failed = record(item, "fail")
    return None if failed is None else _in_tool_role(item, ctx, [*item.history, failed])


def _in_tool_role(item: Item, ctx: Context, history: Iterable[Turn]) -> list[Message] | None:
    if not ctx.has_tool_role:
        return None
    return [*opening(item), *turns([*history], "tool")]


def native(action: str, ctx: Context) -> str | None:
    """A call as the chat template writes it, its arguments as JSON."""
    try:
        call = parse(action)
    except ParseError:
        return None
    return None if call.positional else ctx.native_call(call.tool, call.named)


@condition(
    "pre_native",
    "no attempt yet; calls are written as the chat template writes them",
    kind="control",
    action=native,
    by_model=True,
)
def pre_native(item: Item, ctx: Context) -> list[Message] | None:
    return _natively(item, ctx, item.history)


@condition(
    "fail_native",
    "the attempt and its error; calls, the scored one too, are written as the chat template "
    "writes them, observations in its tool role if it has one",
    kind="format",
    baseline="pre_native",
    action=native,
    by_model=True,
)
def fail_native(item: Item, ctx: Context) -> list[Message] | None:
    failed = record(item, "fail")
    return None if failed is None else _natively(item, ctx, [*item.history, failed])


def _natively(item: Item, ctx: Context, history: Iterable[Turn]) -> list[Message] | None:
    if native(item.failed_action, ctx) is None:
        return None
    written = []
    for action, observation in history:
        call = native(action, ctx)
        if call is None:
            return None
        written.append(Turn(call, observation))
    return [*opening(item), *turns(written, "tool" if ctx.has_tool_role else "user")]
