"""What an item of the user's own looks like, and what is wrong with one that does not."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from backfire.items import Item, Turn


class Fault(NamedTuple):
    """What is wrong at `key`: what was found there, and what would be right."""

    key: str
    found: str
    right: str

    def __str__(self) -> str:
        return f"{self.key}: found {self.found}; {self.right}"


Check = Callable[[str, Any], Iterator[Fault]]
"""Yields the faults of the value that stands at a key."""


class _Field(NamedTuple):
    required: bool
    check: Check


_TYPES = {
    type(None): "null",
    bool: "true or false",
    int: "a number",
    float: "a number",
    str: "text",
    list: "a list",
    dict: "an object",
}
_SURROGATE = re.compile("[\ud800-\udfff]")
_MAX_STEP = 2**31 - 1
_MAX_SHOWN = 40


def faults(row: Any) -> Iterator[Fault]:
    """All that is wrong with one row of a pool, read from JSON."""
    yield from _object("the line", row, _FIELDS)
    if isinstance(row, dict):
        yield from _candidates(row)


def make_item(row: Mapping[str, Any]) -> Item:
    """The item of a row that has no faults."""
    given = {key: value for key, value in row.items() if value is not None}
    given["history"] = tuple(Turn(**turn) for turn in given["history"])
    given["distractors"] = tuple(given.get("distractors", ()))
    texts = given["observations"].items()
    given["observations"] = {name: text for name, text in texts if text is not None}
    for key in ("other", "unrelated"):
        if key in given:
            given[key] = Turn(**given[key])
    return Item(**given)


def _object(key: str, value: Any, fields: Mapping[str, _Field]) -> Iterator[Fault]:
    """Every field as its check wants it, none missing, none unknown."""
    if not isinstance(value, dict):
        yield Fault(key, _described(value), f"an object with {_listed(fields)} is right")
        return
    prefix = "" if fields is _FIELDS else f"{key}."
    for name in value:
        if name not in fields:
            close = difflib.get_close_matches(name, fields, n=1)
            right = f"did you mean {close[0]}?" if close else f"known are {_listed(fields)}"
            yield Fault(f"{prefix}{_shown(name)}", "an unknown key", right)
    for name, field in fields.items():
        if value.get(name) is not None:
            yield from field.check(f"{prefix}{name}", value[name])
        elif field.required:
            found = "null" if name in value else "nothing"
            yield Fault(f"{prefix}{name}", found, "it is required")


def _text(key: str, value: Any) -> Iterator[Fault]:
    if not isinstance(value, str):
        yield Fault(key, _described(value), "text is right")
    elif _SURROGATE.search(value):
        yield Fault(key, "text with a lone surrogate", "text that UTF-8 can hold is right")


def _filled(key: str, value: Any) -> Iterator[Fault]:
    """Text that says something."""
    yield from _text(key, value)
    if isinstance(value, str) and not value.strip():
        yield Fault(key, "empty text", "text with something in it is right")


def _step(key: str, value: Any) -> Iterator[Fault]:
    whole = isinstance(value, int) and not isinstance(value, bool)
    if not whole or not 0 <= value <= _MAX_STEP:
        yield Fault(key, _described(value), "a whole number from 0 up is right")


def _list_of(check: Check, of: str) -> Check:
    def check_list(key: str, value: Any) -> Iterator[Fault]:
        if not isinstance(value, list):
            yield Fault(key, _described(value), f"a list of {of} is right")
            return
        for number, entry in enumerate(value):
            yield from check(f"{key}[{number}]", entry)

    return check_list


def _turn(key: str, value: Any) -> Iterator[Fault]:
    yield from _object(key, value, _TURN_FIELDS)


def _observations(key: str, value: Any) -> Iterator[Fault]:
    if not isinstance(value, dict):
        yield Fault(key, _described(value), "an object of texts by name is right")
        return
    if value.get("fail") is None:
        yield Fault(f"{key}.fail", "nothing", "the failure as it was recorded is required")
    for name, text in value.items():
        yield from _filled(f"{key}.{_shown(name)}", name)
        if text is not None:
            yield from _filled(f"{key}.{_shown(name)}", text)


def _error(key: str, value: Any) -> Iterator[Fault]:
    if not isinstance(value, dict):
        yield Fault(key, _described(value), "an object is right")
    else:
        yield from _text(key, json.dumps(value, ensure_ascii=False))


def _candidates(row: Mapping[str, Any]) -> Iterator[Fault]:
    """The actions that are compared must differ from each other."""
    named = {"failed_action": row.get("failed_action"), "gold_action": row.get("gold_action")}
    distractors = row.get("distractors")
    if isinstance(distractors, list):
        named |= {f"distractors[{number}]": text for number, text in enumerate(distractors)}
    seen: dict[str, str] = {}
    for key, text in named.items():
        if not isinstance(text, str):
            continue
        if text in seen:
            yield Fault(key, f"the same text as in {seen[text]}", "another action is right")
        seen.setdefault(text, key)


_TURN_FIELDS = {"action": _Field(True, _filled), "observation": _Field(True, _text)}

_FIELDS: dict[str, _Field] = {
    "item_id": _Field(True, _filled),
    "task_id": _Field(True, _filled),
    "template": _Field(False, _filled),
    "step": _Field(False, _step),
    "operator": _Field(False, _filled),
    "error_family": _Field(False, _filled),
    "tool": _Field(False, _filled),
    "system": _Field(True, _text),
    "goal": _Field(True, _filled),
    "history": _Field(True, _list_of(_turn, "{action, observation}")),
    "failed_action": _Field(True, _filled),
    "gold_action": _Field(False, _filled),
    "distractors": _Field(False, _list_of(_filled, "texts")),
    "observations": _Field(True, _observations),
    "other": _Field(False, _turn),
    "unrelated": _Field(False, _turn),
    "error": _Field(False, _error),
}


def _described(value: Any) -> str:
    """A value in a few words."""
    kind = _TYPES.get(type(value), type(value).__name__)
    return f"{kind} ({_shown(str(value))})" if kind == "a number" else kind


def _listed(fields: Iterable[str]) -> str:
    return ", ".join(fields)


def _shown(name: str) -> str:
    """A key or number of the user's, made fit for one line."""
    name = name if name.isprintable() and name else ascii(name)
    return name if len(name) <= _MAX_SHOWN else f"{name[:_MAX_SHOWN]}..."
