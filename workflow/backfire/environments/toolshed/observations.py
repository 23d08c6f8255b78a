"""What the runtime prints: errors in their renderings, successes, acknowledgements."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Literal, NamedTuple

from backfire.environments.toolshed.calls import Value

Style = Literal["standard", "terse", "verbose"]

NEUTRAL = "Received."
"""An acknowledgement without valence."""

_MAX_QUOTED = 120


@dataclass(frozen=True)
class ToolError:
    """A failed call in structured form.

    Attributes:
        family: one of `FAMILIES`.
        tool: the tool's name as called; None where the text was no call.
        field: the argument at fault, if it is one.
        value: that argument's value as given.
        expected: what would have been right, in words, where the runtime knows.
    """

    family: str
    tool: str | None
    field: str | None = None
    value: Value = None
    expected: str | None = None

    def as_dict(self) -> dict[str, Value]:
        return asdict(self)


class _Wording(NamedTuple):
    standard: str
    hint: str


FAMILIES: dict[str, _Wording] = {
    "unknown_tool": _Wording(
        "there is no tool named '{tool}' in this workspace.",
        "The instructions list the name of every tool.",
    ),
    "unexpected_argument": _Wording(
        "{tool} has no argument '{field}'. It takes {expected}.",
        "Arguments are matched by their names.",
    ),
    "missing_argument": _Wording(
        "{tool} needs the argument '{field}', which was not given.",
        "All arguments of a tool are required.",
    ),
    "type_error": _Wording(
        "the argument '{field}' of {tool} must be of type {expected}, not {type}.",
        "The signature of a tool states the type of each argument.",
    ),
    "format_error": _Wording(
        "the argument '{field}' of {tool} must be {expected}, not '{value}'.",
        "A text of any other form is not understood.",
    ),
    "permission_error": _Wording(
        "permission denied. The file '{value}' is read-only and cannot be written.",
        "Only the administrator can change it.",
    ),
    "unsupported_conversion": _Wording(
        "the unit '{value}' is not supported in this conversion.",
        "Both units must be known and must measure the same quantity.",
    ),
    "contact_not_found": _Wording(
        "no contact '{value}' was found in the address book.",
        "Contacts are looked up by their exact name or email address.",
    ),
    "file_not_found": _Wording(
        "no file or folder '{value}' was found in the workspace.",
        "Paths must match exactly.",
    ),
    "event_not_found": _Wording(
        "no event with the title '{value}' was found in the calendar.",
        "Events are looked up by their exact title.",
    ),
    "attendee_not_found": _Wording(
        "the attendee '{value}' was not found in the address book.",
        "Every attendee must be a contact.",
    ),
    "team_not_found": _Wording(
        "no team named '{value}' was found in the address book.",
        "Teams are looked up by their exact name.",
    ),
    "parse_error": _Wording(
        "the reply could not be read as one tool call: {expected}.",
        "A reply is one call on one line with named arguments.",
    ),
}
"""The error families: twelve that a call can meet, and text that is no call."""


def render_error(error: ToolError, style: Style = "standard") -> str:
    """An error as the runtime prints it."""
    if style == "terse":
        return f"Error: {error.family.replace('_', ' ')}."
    wording = FAMILIES[error.family]
    standard = "Error: " + wording.standard.format(
        tool=error.tool,
        field=error.field,
        value=plain(error.value),
        expected=error.expected,
        type=type(error.value).__name__,
    )
    if style == "standard":
        return standard
    return f"{standard} {wording.hint} The call was not carried out and nothing has changed."


def render_echo(error: ToolError, action: str) -> str:
    """A standard error that repeats the call."""
    return f"{render_error(error)} The call was: {action}"


def plain(value: Value) -> str:
    """A value in running text, shortened where it is long."""
    text = ", ".join(map(plain, value)) if isinstance(value, list) else str(value)
    return text if len(text) <= _MAX_QUOTED else f"{text[:_MAX_QUOTED]}..."


_SUCCESS: dict[str, tuple[str, ...]] = {
    "find_contact": ("found contact", " {name}"),
    "list_team": ("listed team", " {team}"),
    "list_events": ("listed events", " on {date}"),
    "create_event": (
        "created event",
        " '{title}'",
        " on {date}",
        " at {time}",
        " with {attendees}",
    ),
    "move_event": ("moved event", " '{title}'", " to {date}", " at {time}"),
    "cancel_event": ("cancelled event", " '{title}'"),
    "set_reminder": ("set reminder", " '{text}'", " for {date}", " at {time}"),
    "send_message": ("sent message", " '{subject}'", " to {to}"),
    "list_files": ("listed files", " in {folder}"),
    "read_file": ("read file", " {path}"),
    "write_file": ("wrote file", " {path}"),
    "convert_units": ("converted", " {value}", " {from_unit}", " to {to_unit}"),
    "finish": ("finished",),
}


def render_success(tool: str, arguments: Mapping[str, Value], result: str | None = None) -> str:
    """A success of `tool`, in words made from whichever arguments are there.

    Args:
        result: what the call returned, for tools that return something; a counterfactual
            success has none.
    """
    head, *parts = _SUCCESS[tool]
    values = {name: plain(value) for name, value in arguments.items()}
    known = [part for part in parts if part.split("{")[1].split("}")[0] in values]
    phrase = f"OK: {head}{''.join(known).format(**values)}"
    return f"{phrase}." if result is None else f"{phrase}: {result}"
