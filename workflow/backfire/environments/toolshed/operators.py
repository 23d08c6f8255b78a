"""The eight perturbations that make a failing call from a reference call.

An operator takes the reference call, the world it would run in, and a source of choices; it
returns the perturbed call, or None where it does not apply. Each puts in what a model that
gets this wrong would plausibly write.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import replace

from backfire.environments.toolshed.calls import Call, Value
from backfire.environments.toolshed.runtime import World
from backfire.environments.toolshed.tools import TOOLS, Holds, Param

Operator = Callable[[Call, World, random.Random], Call | None]

_TOOL_TYPOS: Mapping[str, tuple[str, ...]] = {
    "find_contact": ("find_contacts", "find_contcat", "findcontact"),
    "list_team": ("list_teams", "lst_team", "listteam"),
    "list_events": ("list_event", "list_evnets", "listevents"),
    "create_event": ("create_events", "creat_event", "createevent"),
    "move_event": ("move_events", "mov_event", "moveevent"),
    "cancel_event": ("cancel_events", "cancle_event", "cancelevent"),
    "set_reminder": ("set_reminders", "set_remider", "setreminder"),
    "send_message": ("send_messages", "send_mesage", "sendmessage"),
    "list_files": ("list_file", "list_flies", "listfiles"),
    "read_file": ("read_files", "raed_file", "readfile"),
    "write_file": ("write_files", "wirte_file", "writefile"),
    "convert_units": ("convert_unit", "covert_units", "convertunits"),
}

_ARGUMENT_TYPOS: Mapping[str, tuple[str, ...]] = {
    "name": ("names", "nmae"),
    "team": ("teams", "taem"),
    "date": ("dates", "dtae"),
    "title": ("titles", "titel"),
    "time": ("times", "tiem"),
    "attendees": ("attendee", "atendees"),
    "text": ("texts", "txet"),
    "to": ("too", "ot"),
    "subject": ("subjects", "subjcet"),
    "body": ("bodys", "boddy"),
    "folder": ("folders", "foldr"),
    "path": ("paths", "paht"),
    "content": ("contents", "contnet"),
    "value": ("values", "vlaue"),
    "from_unit": ("from_units", "form_unit"),
    "to_unit": ("to_units", "to_untis"),
}

_ABSENT: Mapping[Holds, tuple[str, ...]] = {
    "name": ("Jordan Lee", "Helen Carter", "Victor Stone", "Nadia Brooks", "Simon Keller"),
    "team": ("Operations", "Compliance", "Analytics", "Outreach", "Procurement"),
    "event": ("Weekly sync", "Strategy retreat", "Board update", "Team offsite", "Status round"),
    "path": ("summary.txt", "todo.txt", "minutes.txt", "contacts.txt", "draft.txt"),
    "unit": ("leagues", "furlongs", "stones", "bushels", "cubits"),
}
"""Entities that no office has; paths are taken to the folder of the path they replace."""

_MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)


def drop_arg(call: Call, world: World, rng: random.Random) -> Call | None:
    """Leave one argument out."""
    name = rng.choice(list(call.named))
    return replace(call, named={key: value for key, value in call.named.items() if key != name})


def tool_typo(call: Call, world: World, rng: random.Random) -> Call | None:
    """Misspell the tool's name."""
    return replace(call, tool=rng.choice(_TOOL_TYPOS[call.tool]))


def arg_typo(call: Call, world: World, rng: random.Random) -> Call | None:
    """Misspell an argument's name."""
    name = rng.choice(list(call.named))
    typo = rng.choice(_ARGUMENT_TYPOS[name])
    named = {typo if key == name else key: value for key, value in call.named.items()}
    return replace(call, named=named)


def type_swap(call: Call, world: World, rng: random.Random) -> Call | None:
    """Give an argument as another type: a list bare, a number or bare text in a list or quotes."""
    param = rng.choice(TOOLS[call.tool].params)
    return _with(call, param, _swapped(param, call.named[param.name]))


def date_format(call: Call, world: World, rng: random.Random) -> Call | None:
    """Write the date in another common format."""
    param = _choose(call, rng, "date")
    if param is None:
        return None
    year, month, day = str(call.named[param.name]).split("-")
    word = _MONTHS[int(month) - 1]
    formats = (
        f"{word} {int(day)}, {year}",
        f"{int(day)} {word} {year}",
        f"{day}/{month}/{year}",
        f"{month}/{day}/{year}",
        f"{year}/{month}/{day}",
    )
    return _with(call, param, rng.choice(formats))


def hallucinated_entity(call: Call, world: World, rng: random.Random) -> Call | None:
    """Name a person, team, event, file or unit that does not exist."""
    # To write to a path that does not exist is no mistake.
    path: tuple[Holds, ...] = ("path",) if call.tool == "read_file" else ()
    param = _choose(call, rng, "name", "team", "event", "email", "emails", "unit", *path)
    if param is None:
        return None
    value = call.named[param.name]
    if isinstance(value, list):
        return _with(call, param, [*value[:-1], _absent_email(world, rng)])
    if param.holds == "email":
        return _with(call, param, _absent_email(world, rng))
    absent = rng.choice(_ABSENT[param.holds])
    if param.holds == "path":
        absent = f"{str(value).rsplit('/', 1)[0]}/{absent}"
    return _with(call, param, absent)


def name_for_email(call: Call, world: World, rng: random.Random) -> Call | None:
    """Give people's names where their email addresses are wanted."""
    param = _choose(call, rng, "email", "emails")
    if param is None:
        return None
    names: dict[Value, Value] = {contact.email: contact.name for contact in world.contacts}
    value = call.named[param.name]
    named = [names[entry] for entry in value] if isinstance(value, list) else names[str(value)]
    return _with(call, param, named)


def readonly_target(call: Call, world: World, rng: random.Random) -> Call | None:
    """Write to the read-only system file."""
    if call.tool != "write_file":
        return None
    return replace(call, named={**call.named, "path": rng.choice(sorted(world.read_only))})


def _choose(call: Call, rng: random.Random, *holds: Holds) -> Param | None:
    """One of the tool's parameters that hold such a thing, if it has any."""
    params = [param for param in TOOLS[call.tool].params if param.holds in holds]
    return rng.choice(params) if params else None


def _with(call: Call, param: Param, value: Value) -> Call:
    return replace(call, named={**call.named, param.name: value})


def _swapped(param: Param, value: Value) -> Value:
    """The value as another type."""
    if param.holds == "number":
        return str(value)
    if isinstance(value, list):
        return ", ".join(map(str, value))
    if param.holds in ("date", "time"):
        return int("".join(filter(str.isdigit, str(value))))
    return [value]


def _absent_email(world: World, rng: random.Random) -> str:
    domain = world.contacts[0].email.split("@")[1]
    return f"{rng.choice(_ABSENT['name']).split()[0].lower()}@{domain}"


OPERATORS: dict[str, Operator] = {
    operator.__name__: operator
    for operator in (
        drop_arg,
        tool_typo,
        arg_typo,
        type_swap,
        date_format,
        hallucinated_entity,
        name_for_email,
        readonly_target,
    )
}
