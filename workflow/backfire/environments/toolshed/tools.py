"""The twelve tools, their signatures, and the system prompt that describes them."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

Holds = Literal[
    "text", "name", "team", "event", "email", "emails", "date", "time", "path", "folder", "unit",
    "number",
]  # fmt: skip
"""What an argument holds; decides its type, its format and how it can be got wrong."""


class Param(NamedTuple):
    name: str
    holds: Holds

    @property
    def type(self) -> str:
        """The argument's Python type, as the system prompt writes it."""
        return {"number": "float", "emails": "list[str]"}.get(self.holds, "str")


@dataclass(frozen=True)
class Tool:
    name: str
    params: tuple[Param, ...]
    summary: str

    def param(self, name: str) -> Param | None:
        return next((param for param in self.params if param.name == name), None)

    @property
    def signature(self) -> str:
        return f"{self.name}({', '.join(f'{param.name}: {param.type}' for param in self.params)})"


def _tool(name: str, summary: str, /, **params: Holds) -> Tool:
    return Tool(name, tuple(Param(*pair) for pair in params.items()), summary)


TOOLS: dict[str, Tool] = {
    tool.name: tool
    for tool in (
        _tool(
            "find_contact",
            "Look up a person in the address book by full name. Returns the person's email "
            "address and team.",
            name="name",
        ),
        _tool(
            "list_team",
            "List the members of a team. Returns their names and email addresses.",
            team="team",
        ),
        _tool(
            "list_events",
            "List the calendar events on a date. Returns their times and titles.",
            date="date",
        ),
        _tool(
            "create_event",
            "Add a new event to the calendar. The attendees are given by their email addresses.",
            title="text",
            date="date",
            time="time",
            attendees="emails",
        ),
        _tool(
            "move_event",
            "Move an event that is in the calendar to another date and time.",
            title="event",
            date="date",
            time="time",
        ),
        _tool("cancel_event", "Remove an event from the calendar.", title="event"),
        _tool(
            "set_reminder",
            "Set a reminder for the user at a date and time.",
            text="text",
            date="date",
            time="time",
        ),
        _tool(
            "send_message",
            "Send a message to a contact. The recipient is given by email address.",
            to="email",
            subject="text",
            body="text",
        ),
        _tool("list_files", "List the files in a folder. Returns their paths.", folder="folder"),
        _tool("read_file", "Read a text file. Returns its content.", path="path"),
        _tool(
            "write_file",
            "Create a text file with the given content, or replace the content of one that exists.",
            path="path",
            content="text",
        ),
        _tool(
            "convert_units",
            "Convert a value between two units of length, weight, volume or time, such as km, "
            "feet, pounds, liters or hours. Returns the value and unit.",
            value="number",
            from_unit="unit",
            to_unit="unit",
        ),
    )
}

FINISH = Tool("finish", (), "End the task. Call it once everything that was asked for is done.")
CALLABLE: dict[str, Tool] = {**TOOLS, FINISH.name: FINISH}

_INTRODUCTION = (
    "You are an office assistant. You work with the user's files, contacts, calendar and messages, "
    "and convert units, by calling tools. Reply with exactly one tool call on a single line and "
    "nothing else. You are then shown the result of the call, and you reply with the next call, "
    "until the task is done and you call finish()."
)
_CONVENTIONS = (
    "Write a call like a Python function call in which every argument is named. All arguments of "
    "a tool are required. Text stands in double quotes, numbers stand without quotes, and a list "
    "stands in square brackets. Dates are written YYYY-MM-DD and times HH:MM on the 24-hour clock. "
    "Use names, titles and paths exactly as the user or a tool has given them to you. Files in the "
    "folder system are read-only. A result that begins with OK means that the call was carried "
    "out. A result that begins with Error means that it was not, and that nothing has changed."
)

SYSTEM_PROMPT = "\n".join(
    [
        _INTRODUCTION,
        "",
        "Tools:",
        *(f"- {tool.signature}: {tool.summary}" for tool in CALLABLE.values()),
        "",
        _CONVENTIONS,
    ]
)


class Format(NamedTuple):
    """What a text must look like: in words, and as a test."""

    description: str
    accepts: Callable[[str], bool]


def _is_date(text: str) -> bool:
    if not re.fullmatch("[0-9]{4}-[0-9]{2}-[0-9]{2}", text):
        return False
    try:
        datetime.date.fromisoformat(text)
    except ValueError:
        return False
    return True


def _matches(pattern: str) -> Callable[[str], bool]:
    return lambda text: re.fullmatch(pattern, text) is not None


_is_email = _matches(r"[^@\s]+@[^@\s]+\.[^@\s]+")

FORMATS: dict[Holds, Format] = {
    "date": Format("a date written YYYY-MM-DD", _is_date),
    "time": Format("a time written HH:MM", _matches("([01][0-9]|2[0-3]):[0-5][0-9]")),
    "email": Format("an email address", _is_email),
    "emails": Format("email addresses", _is_email),
    "path": Format("a relative path", _matches(r"[\w.-]+(/[\w.-]+)*")),
    "folder": Format("a relative path", _matches(r"[\w.-]+(/[\w.-]+)*/?")),
}
