"""The simulated workspace: its state, and what each tool does to it.

A call is parsed, bound to its tool's signature, type-checked, checked for format, and only
then looked up. A world is immutable, so a failed call leaves it as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, NoReturn

from backfire.environments.toolshed.calls import Call, ParseError, Value, parse
from backfire.environments.toolshed.observations import ToolError, render_error, render_success
from backfire.environments.toolshed.tools import CALLABLE, FORMATS, Param, Tool


@dataclass(frozen=True)
class Contact:
    name: str
    email: str
    team: str


@dataclass(frozen=True)
class Event:
    title: str
    date: str
    time: str
    attendees: frozenset[str] = frozenset()


@dataclass(frozen=True)
class File:
    path: str
    content: str


@dataclass(frozen=True)
class Message:
    to: str
    subject: str
    body: str


@dataclass(frozen=True)
class Reminder:
    text: str
    date: str
    time: str


Fact = Event | File | Message | Reminder


@dataclass(frozen=True)
class World:
    """The state of a workspace."""

    contacts: tuple[Contact, ...] = ()
    events: tuple[Event, ...] = ()
    files: tuple[File, ...] = ()
    read_only: frozenset[str] = frozenset()
    messages: tuple[Message, ...] = ()
    reminders: tuple[Reminder, ...] = ()
    finished: bool = False

    def holds(self, facts: Iterable[Fact]) -> bool:
        """Whether every one of the facts is so in this world."""
        held = {*self.events, *self.files, *self.messages, *self.reminders}
        return held.issuperset(facts)


@dataclass(frozen=True)
class Outcome:
    """The world after a call, and what the caller is shown."""

    world: World
    observation: str
    error: ToolError | None = None

    @property
    def ok(self) -> bool:
        return self.error is None

    @property
    def error_family(self) -> str | None:
        return None if self.error is None else self.error.family


class _CallError(Exception):
    def __init__(self, error: ToolError) -> None:
        super().__init__(error.family)
        self.error = error


def execute(world: World, action: str) -> Outcome:
    """Carry out one action, whatever text it is."""
    try:
        tool, arguments = _check(_read(action))
        changed, result = _HANDLERS[tool.name](world, **arguments)
    except _CallError as failure:
        return Outcome(world, render_error(failure.error), failure.error)
    return Outcome(changed, render_success(tool.name, arguments, result))


def canonical(action: str) -> str:
    """One spelling for calls that mean the same: argument order, quotes and spaces aside.

    Text that is no call stands for itself, without its outer and repeated spaces.
    """
    try:
        call = parse(action)
    except ParseError:
        return " ".join(action.split())
    tool = CALLABLE.get(call.tool)
    names = [param.name for param in tool.params] if tool else []
    bound = dict(zip(names, call.positional, strict=False))
    if len(bound) == len(call.positional) and bound.keys().isdisjoint(call.named):
        call = Call(call.tool, {**bound, **call.named})
    return str(replace(call, named=dict(sorted(call.named.items()))))


def _fail(family: str, tool: str | None, **details: Any) -> NoReturn:
    raise _CallError(ToolError(family, tool, **details))


def _read(action: str) -> Call:
    try:
        return parse(action)
    except ParseError as error:
        _fail("parse_error", None, expected=str(error))


def _check(call: Call) -> tuple[Tool, dict[str, Any]]:
    """The tool and its arguments in the order of its signature, types and formats right."""
    tool = CALLABLE.get(call.tool)
    if tool is None:
        _fail("unknown_tool", call.tool)
    given = dict(zip((param.name for param in tool.params), call.positional, strict=False))
    names = ", ".join(param.name for param in tool.params) or "none"
    if len(call.positional) > len(tool.params):
        extra = len(tool.params) + 1
        _fail("unexpected_argument", tool.name, field=f"number {extra}", expected=names)
    for name, value in call.named.items():
        if tool.param(name) is None:
            _fail("unexpected_argument", tool.name, field=name, value=value, expected=names)
        if name in given:
            _fail("parse_error", tool.name, expected="an argument is given twice")
        given[name] = value
    arguments: dict[str, Any] = {}
    for param in tool.params:
        if param.name not in given:
            _fail("missing_argument", tool.name, field=param.name, expected=param.type)
        arguments[param.name] = given[param.name]
    for param in tool.params:
        if not _has_type(param, arguments[param.name]):
            value = arguments[param.name]
            _fail("type_error", tool.name, field=param.name, value=value, expected=param.type)
    for param in tool.params:
        _check_format(tool, param, arguments[param.name])
    return tool, arguments


def _has_type(param: Param, value: Value) -> bool:
    if param.type == "float":
        return isinstance(value, int | float) and not isinstance(value, bool)
    if param.type == "list[str]":
        return isinstance(value, list) and all(isinstance(entry, str) for entry in value)
    return isinstance(value, str)


def _check_format(tool: Tool, param: Param, value: Any) -> None:
    expected = FORMATS.get(param.holds)
    if expected is None:
        return
    for text in value if isinstance(value, list) else [value]:
        if not expected.accepts(text):
            _fail(
                "format_error",
                tool.name,
                field=param.name,
                value=text,
                expected=expected.description,
            )


Step = tuple[World, str | None]


def _find_contact(world: World, name: str) -> Step:
    for contact in world.contacts:
        if contact.name == name:
            return world, f"{contact.email}, team {contact.team}"
    _fail("contact_not_found", "find_contact", field="name", value=name)


def _list_team(world: World, team: str) -> Step:
    members = [f"{one.name} <{one.email}>" for one in world.contacts if one.team == team]
    if not members:
        _fail("team_not_found", "list_team", field="team", value=team)
    return world, ", ".join(members)


def _list_events(world: World, date: str) -> Step:
    events = sorted((event.time, event.title) for event in world.events if event.date == date)
    return world, "; ".join(f"{time} {title}" for time, title in events) or "none"


def _create_event(world: World, title: str, date: str, time: str, attendees: list[str]) -> Step:
    known = {contact.email for contact in world.contacts}
    for attendee in attendees:
        if attendee not in known:
            _fail("attendee_not_found", "create_event", field="attendees", value=attendee)
    event = Event(title, date, time, frozenset(attendees))
    return replace(world, events=(*world.events, event)), None


def _event(world: World, tool: str, title: str) -> Event:
    for event in world.events:
        if event.title == title:
            return event
    _fail("event_not_found", tool, field="title", value=title)


def _move_event(world: World, title: str, date: str, time: str) -> Step:
    event = _event(world, "move_event", title)
    moved = replace(event, date=date, time=time)
    return replace(
        world, events=tuple(moved if one is event else one for one in world.events)
    ), None


def _cancel_event(world: World, title: str) -> Step:
    event = _event(world, "cancel_event", title)
    return replace(world, events=tuple(one for one in world.events if one is not event)), None


def _set_reminder(world: World, text: str, date: str, time: str) -> Step:
    return replace(world, reminders=(*world.reminders, Reminder(text, date, time))), None


def _send_message(world: World, to: str, subject: str, body: str) -> Step:
    if to not in {contact.email for contact in world.contacts}:
        _fail("contact_not_found", "send_message", field="to", value=to)
    return replace(world, messages=(*world.messages, Message(to, subject, body))), None


def _list_files(world: World, folder: str) -> Step:
    prefix = folder.rstrip("/") + "/"
    paths = sorted(file.path for file in world.files if file.path.startswith(prefix))
    if not paths:
        _fail("file_not_found", "list_files", field="folder", value=folder)
    return world, ", ".join(paths)


def _read_file(world: World, path: str) -> Step:
    for file in world.files:
        if file.path == path:
            return world, file.content
    _fail("file_not_found", "read_file", field="path", value=path)


def _write_file(world: World, path: str, content: str) -> Step:
    if path in world.read_only:
        _fail("permission_error", "write_file", field="path", value=path)
    kept = tuple(file for file in world.files if file.path != path)
    return replace(world, files=(*kept, File(path, content))), None


_UNITS: dict[str, tuple[str, float]] = {
    "meters": ("length", 1.0),
    "km": ("length", 1000.0),
    "miles": ("length", 1609.344),
    "feet": ("length", 0.3048),
    "inches": ("length", 0.0254),
    "cm": ("length", 0.01),
    "kg": ("weight", 1.0),
    "grams": ("weight", 0.001),
    "pounds": ("weight", 0.45359237),
    "ounces": ("weight", 0.028349523125),
    "liters": ("volume", 1.0),
    "gallons": ("volume", 3.785411784),
    "pints": ("volume", 0.473176473),
    "minutes": ("time", 1.0),
    "hours": ("time", 60.0),
    "days": ("time", 1440.0),
}
"""Unit -> quantity, and size in the quantity's base unit."""


def convert_units(value: float, from_unit: str, to_unit: str) -> str:
    """A value in another unit, with that unit; both are known and of one quantity."""
    return f"{value * _UNITS[from_unit][1] / _UNITS[to_unit][1]:.2f} {to_unit}"


def _convert_units(world: World, value: float, from_unit: str, to_unit: str) -> Step:
    for field, unit in (("from_unit", from_unit), ("to_unit", to_unit)):
        if unit not in _UNITS or _UNITS[unit][0] != _UNITS[from_unit][0]:
            _fail("unsupported_conversion", "convert_units", field=field, value=unit)
    return world, convert_units(value, from_unit, to_unit)


def _finish(world: World) -> Step:
    return replace(world, finished=True), None


_HANDLERS: dict[str, Callable[..., Step]] = {
    "find_contact": _find_contact,
    "list_team": _list_team,
    "list_events": _list_events,
    "create_event": _create_event,
    "move_event": _move_event,
    "cancel_event": _cancel_event,
    "set_reminder": _set_reminder,
    "send_message": _send_message,
    "list_files": _list_files,
    "read_file": _read_file,
    "write_file": _write_file,
    "convert_units": _convert_units,
    "finish": _finish,
}
