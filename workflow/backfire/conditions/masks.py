"""The masking ladder: how much of the failed call can stay in the transcript.

From the top: `fail_terse` (the whole call), `mask_value`, `mask_values`, `mask_arguments`,
`abstract` (nothing). The error is the terse one throughout, which quotes nothing of the call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from backfire.conditions.registry import Context, Message, condition
from backfire.conditions.writing import after, record
from backfire.environments.toolshed.calls import Call, ParseError, parse, write_value
from backfire.items import Item

ELIDED = "..."

LADDER = ("fail", "fail_terse", "mask_value", "mask_values", "mask_arguments", "abstract")
"""From the standard record down to no call at all."""

Mask = Callable[[Call, str | None], str | None]
"""From a call, and the argument that its error names, to what is left of it."""


def _write(call: Call, shown: Mapping[str, str]) -> str:
    return f"{call.tool}({', '.join(f'{name}={text}' for name, text in shown.items())})"


def value_elided(call: Call, field: str | None) -> str | None:
    """The call without the value of the argument that the error names, if it has that one."""
    if field not in call.named:
        return None
    shown = {name: write_value(value) for name, value in call.named.items()}
    return _write(call, {**shown, field: ELIDED})


def values_elided(call: Call, field: str | None) -> str:
    """The call with the names of its arguments and none of their values."""
    return _write(call, dict.fromkeys(call.named, ELIDED))


def arguments_elided(call: Call, field: str | None) -> str:
    """The tool's name alone."""
    return f"{call.tool}({ELIDED})"


def _masked(item: Item, mask: Mask) -> list[Message] | None:
    try:
        call = parse(item.failed_action)
    except ParseError:
        return None
    if call.positional:
        return None
    action = mask(call, (item.error or {}).get("field"))
    return None if action is None else after(item, record(item, "terse", action))


@condition(
    "mask_value",
    "the attempt without the value that was at fault, and its error in a few words",
    kind="form",
    gold=True,
)
def mask_value(item: Item, ctx: Context) -> list[Message] | None:
    return _masked(item, value_elided)


@condition(
    "mask_values",
    "the attempt without the values of its arguments, and its error in a few words",
    kind="form",
    gold=True,
)
def mask_values(item: Item, ctx: Context) -> list[Message] | None:
    return _masked(item, values_elided)


@condition(
    "mask_arguments",
    "the name of the tool called, and the error in a few words",
    kind="form",
    gold=True,
)
def mask_arguments(item: Item, ctx: Context) -> list[Message] | None:
    return _masked(item, arguments_elided)
