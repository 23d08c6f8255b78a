"""The tasks: what the user asks for, how it is done, and when it is done.

Six templates of two to three calls make the probe's tasks, three of a single call serve
rollouts. Each is instantiated in every office.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from backfire.environments.toolshed.calls import Call, Value
from backfire.environments.toolshed.offices import OFFICES, Office
from backfire.environments.toolshed.runtime import (
    Contact,
    Event,
    Fact,
    File,
    Message,
    Outcome,
    Reminder,
    World,
    convert_units,
    execute,
)


@dataclass(frozen=True)
class Step:
    """One call of a reference solution, beside two others that would also be accepted there.

    Attributes:
        gold: the reference call.
        near: the same tool with another entity of the world.
        aside: a call of another tool that has to do with the goal.
    """

    gold: str
    near: str
    aside: str


@dataclass(frozen=True)
class Task:
    """A goal in a world. The reference solution is `steps`, then `finish()`."""

    task_id: str
    template: str
    goal: str
    world: World
    steps: tuple[Step, ...]
    requires: frozenset[Fact]

    def solved(self, world: World) -> bool:
        """The goal predicate: whether what was asked for is so, however it came about."""
        return world.holds(self.requires)


def reach(task: Task, step: int) -> tuple[World, list[Outcome]]:
    """The world before a step (counted from 0) of the reference solution, and the way there."""
    world, outcomes = task.world, []
    for done in task.steps[:step]:
        outcome = execute(world, done.gold)
        outcomes.append(outcome)
        world = outcome.world
    return world, outcomes


def address(office: Office, name: str) -> str:
    """The email address of one of the office's people."""
    return f"{name.split()[0].lower()}@{office.domain}"


def make_world(office: Office) -> World:
    """The office before anything is done in it."""
    contacts = tuple(Contact(name, address(office, name), team) for name, team in office.people)
    guests = frozenset(contact.email for contact in contacts[2:4])
    files = tuple(File(*note) for note in office.notes)
    return World(
        contacts=contacts,
        events=tuple(Event(*planned, guests) for planned in office.agenda),
        files=(*files, File(office.system_file, "Managed by the administrator.")),
        read_only=frozenset([office.system_file]),
    )


@dataclass(frozen=True)
class _Plan:
    goal: str
    steps: tuple[Step, ...]
    requires: frozenset[Fact]


def _call(tool: str, **arguments: Value) -> str:
    return str(Call(tool, arguments))


def _folder(path: str) -> str:
    return path.split("/")[0]


def _invite(office: Office) -> _Plan:
    (name, _), (other, _) = office.people[0], office.people[4]
    title, date, time = office.invitation
    guest, stranger = address(office, name), address(office, other)

    def create(email: str) -> str:
        return _call("create_event", title=title, date=date, time=time, attendees=[email])

    return _Plan(
        f'Add the event "{title}" to the calendar on {date} at {time} and invite {name}. '
        "The email address is in the address book.",
        (
            Step(
                _call("find_contact", name=name),
                _call("find_contact", name=other),
                _call("list_events", date=date),
            ),
            Step(
                create(guest),
                create(stranger),
                _call("send_message", to=guest, subject=title, body=f"On {date} at {time}."),
            ),
        ),
        frozenset([Event(title, date, time, frozenset([guest]))]),
    )


def _share(office: Office) -> _Plan:
    (name, team), (other, _) = office.people[2], office.people[0]
    note, spare = office.notes
    recipient, subject = address(office, name), office.subject

    def send(email: str) -> str:
        return _call("send_message", to=email, subject=subject, body=note.content)

    return _Plan(
        f'Read {note.path} and send its text to {name} in a message with the subject "{subject}". '
        "Look up the email address before you send it.",
        (
            Step(
                _call("read_file", path=note.path),
                _call("read_file", path=spare.path),
                _call("find_contact", name=name),
            ),
            Step(
                _call("find_contact", name=name),
                _call("find_contact", name=other),
                _call("list_files", folder=_folder(note.path)),
            ),
            Step(
                send(recipient),
                send(address(office, other)),
                _call("list_team", team=team),
            ),
        ),
        frozenset([Message(recipient, subject, note.content)]),
    )


def _agenda(office: Office) -> _Plan:
    event, other = office.agenda[0], office.agenda[1]
    path = office.summary_path
    return _Plan(
        f"Find out which event is in the calendar on {event.date} and write its title, and "
        f"nothing else, to {path}.",
        (
            Step(
                _call("list_events", date=event.date),
                _call("list_events", date=other.date),
                _call("list_files", folder=_folder(path)),
            ),
            Step(
                _call("write_file", path=path, content=event.title),
                _call("write_file", path=path, content=other.title),
                _call("set_reminder", text=event.title, date=event.date, time=event.time),
            ),
        ),
        frozenset([File(path, event.title)]),
    )


def _convert(office: Office) -> _Plan:
    value, unit, into, instead, path = office.conversion

    def convert(target: str) -> str:
        return _call("convert_units", value=value, from_unit=unit, to_unit=target)

    result = convert_units(value, unit, into)
    return _Plan(
        f"Convert {value} {unit} to {into} and save the result with its unit in {path}.",
        (
            Step(
                convert(into),
                convert(instead),
                _call("list_files", folder=_folder(office.notes[0].path)),
            ),
            Step(
                _call("write_file", path=path, content=result),
                _call("write_file", path=path, content=f"{value} {unit}"),
                _call("convert_units", value=value, from_unit=into, to_unit=unit),
            ),
        ),
        frozenset([File(path, result)]),
    )


def _gather(office: Office) -> _Plan:
    team, other = office.people[0][1], office.people[2][1]
    title, date, time = office.workshop

    def emails(of: str) -> list[str]:
        return [address(office, name) for name, belongs in office.people if belongs == of]

    def create(of: str) -> str:
        attendees: list[Value] = [*emails(of)]
        return _call("create_event", title=title, date=date, time=time, attendees=attendees)

    guests = emails(team)
    return _Plan(
        f'Schedule "{title}" on {date} at {time} with both members of the {team} team.',
        (
            Step(
                _call("list_team", team=team),
                _call("list_team", team=other),
                _call("list_events", date=date),
            ),
            Step(
                create(team),
                create(other),
                _call("send_message", to=guests[0], subject=title, body=f"On {date} at {time}."),
            ),
        ),
        frozenset([Event(title, date, time, frozenset(guests))]),
    )


def _move(office: Office) -> _Plan:
    event, other = office.agenda[1], office.agenda[2]
    date, time = office.moved_to
    text = office.follow_up
    guests = next(one.attendees for one in make_world(office).events if one.title == event.title)

    def remind(day: str) -> str:
        return _call("set_reminder", text=text, date=day, time=event.time)

    def move(title: str) -> str:
        return _call("move_event", title=title, date=date, time=time)

    return _Plan(
        f"Move the event that is in the calendar on {event.date} to {date} at {time}. Then set a "
        f'reminder "{text}" for {date} at {event.time}.',
        (
            Step(
                _call("list_events", date=event.date),
                _call("list_events", date=date),
                remind(date),
            ),
            Step(move(event.title), move(other.title), _call("cancel_event", title=event.title)),
            Step(remind(date), remind(event.date), _call("list_events", date=date)),
        ),
        frozenset([Event(event.title, date, time, guests), Reminder(text, date, event.time)]),
    )


def _remind(office: Office) -> _Plan:
    text, date, time = office.reminder
    return _Plan(
        f'Set a reminder "{text}" for {date} at {time}.',
        (
            Step(
                _call("set_reminder", text=text, date=date, time=time),
                _call("set_reminder", text=text, date=office.moved_to[0], time=time),
                _call("list_events", date=date),
            ),
        ),
        frozenset([Reminder(text, date, time)]),
    )


def _write(office: Office) -> _Plan:
    path, content = office.memo
    return _Plan(
        f'Write the text "{content}" to the file {path}.',
        (
            Step(
                _call("write_file", path=path, content=content),
                _call("write_file", path=office.notes[0].path, content=content),
                _call("read_file", path=office.notes[0].path),
            ),
        ),
        frozenset([File(path, content)]),
    )


def _send(office: Office) -> _Plan:
    (name, _), (other, _) = office.people[3], office.people[1]
    recipient = address(office, name)
    subject, body = office.message

    def send(email: str) -> str:
        return _call("send_message", to=email, subject=subject, body=body)

    return _Plan(
        f'Send a message to {recipient} with the subject "{subject}" and the text "{body}"',
        (Step(send(recipient), send(address(office, other)), _call("find_contact", name=name)),),
        frozenset([Message(recipient, subject, body)]),
    )


_Template = Callable[[Office], _Plan]

PROBE_TEMPLATES: dict[str, _Template] = {
    "invite_contact": _invite,
    "share_file": _share,
    "save_agenda": _agenda,
    "save_conversion": _convert,
    "gather_team": _gather,
    "move_event": _move,
}
SINGLE_CALL_TEMPLATES: dict[str, _Template] = {
    "set_reminder": _remind,
    "write_file": _write,
    "send_message": _send,
}


def _instantiate(templates: dict[str, _Template]) -> tuple[Task, ...]:
    tasks = []
    for template, make in templates.items():
        for office in OFFICES:
            plan = make(office)
            task_id = f"{template}-{office.domain.split('.')[0]}"
            world = make_world(office)
            tasks.append(Task(task_id, template, plan.goal, world, plan.steps, plan.requires))
    return tuple(tasks)


@cache
def probe_tasks() -> tuple[Task, ...]:
    """The multi-step tasks that probe items are made from."""
    return _instantiate(PROBE_TEMPLATES)


@cache
def single_call_tasks() -> tuple[Task, ...]:
    """Tasks that a single call solves; not in the probe."""
    return _instantiate(SINGLE_CALL_TEMPLATES)
