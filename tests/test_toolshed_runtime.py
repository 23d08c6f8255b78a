"""ToolShed's parser, runtime and goal predicates."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfire.environments.toolshed import (
    SYSTEM_PROMPT,
    World,
    canonical,
    execute,
    probe_tasks,
    single_call_tasks,
)
from backfire.environments.toolshed.calls import MAX_CHARS, Call, ParseError, parse
from backfire.environments.toolshed.observations import FAMILIES, ToolError, render_error
from backfire.environments.toolshed.tasks import reach
from backfire.environments.toolshed.tools import CALLABLE, TOOLS

OFFICE = probe_tasks()[0].world
TEXT = st.text(st.characters(exclude_categories=["Cs"]))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**62), 2**62) | st.floats(-1e18, 1e18) | TEXT,
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=8,
)
NAMES = st.sampled_from(["name", "path", "title", "größe", "_x"])


@given(st.dictionaries(NAMES, VALUES), st.lists(VALUES, max_size=3))
def test_a_written_call_reads_back_as_itself(named, positional):
    call = Call("read_file", named, tuple(positional))
    assert parse(str(call)) == call


HOSTILE = {
    "empty": "",
    "NUL": "find_contact(name='\x00')",
    "lone surrogate": "find_contact(name='\ud800')",
    "escaped lone surrogate": r"find_contact(name='\ud800')",
    "deep parentheses": "(" * 5000,
    "too deep lists": f"find_contact(name={'[' * 3000}{']' * 3000})",
    "deep minus": f"convert_units(value={'-' * 8000}1)",
    "deep attributes": "a" + ".a" * 4000 + "()",
    "deep calls": "f(" * 3000 + ")" * 3000,
    "huge integer": f"convert_units(value={'9' * 6000})",
    "huge hexadecimal": f"convert_units(value=0x{'f' * 6000})",
    "infinite float": "convert_units(value=1e999, from_unit='km', to_unit='km')",
    "ten megabytes": "find_contact(name='" + "x" * 10**7 + "')",
    "long name": "e" * 9000 + "()",
    "bytes": "find_contact(name=b'Ana')",
    "name as value": "find_contact(name=ana)",
    "f-string": "find_contact(name=f'{1}')",
    "arithmetic": "convert_units(value=1+1, from_unit='km', to_unit='km')",
    "complex": "convert_units(value=1j, from_unit='km', to_unit='km')",
    "ellipsis": "find_contact(name=...)",
    "dictionary": "find_contact(name={'a': 1})",
    "repeated argument": "find_contact(name='a', name='b')",
    "unpacked": "find_contact(**{'name': 'a'})",
    "starred": "find_contact(*['a'])",
    "two calls": "finish(); finish()",
    "two lines": "finish()\nfinish()",
    "method": "tools.finish()",
    "assignment": "x = finish()",
    "prose": "I will look that up for you.",
    "import": "__import__('os').system('true')",
    "bad escape": r"find_contact(name='\N{no such name}')",
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("action", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_text_is_an_ordinary_parse_error(action):
    started = time.perf_counter()
    outcome = execute(OFFICE, action)
    assert outcome.error_family == "parse_error"
    assert outcome.world == OFFICE
    assert len(outcome.observation.encode()) < 200
    canonical(action)
    assert time.perf_counter() - started < 1


CALLISH = st.lists(
    st.sampled_from(
        [*"()[]{}\"'=,.:*-\\#\n\x00\ud800 ", "f(", "name=", "1e9", "finish", "not ", "ß"]
    )
).map("".join)


@given(st.text() | CALLISH)
def test_any_text_at_all_has_an_outcome(action):
    outcome = execute(OFFICE, action)
    assert outcome.ok or outcome.world == OFFICE
    canonical(action)
    try:
        parse(action)
    except ParseError:
        assert outcome.error_family == "parse_error"


@given(st.sampled_from(sorted(CALLABLE)), st.dictionaries(NAMES, VALUES), st.lists(VALUES))
def test_a_failed_call_never_changes_the_world(tool, named, positional):
    outcome = execute(OFFICE, str(Call(tool, named, tuple(positional))))
    assert outcome.ok or outcome.world is OFFICE
    assert outcome.ok == outcome.observation.startswith("OK: ")
    assert outcome.ok != outcome.observation.startswith("Error: ")


@pytest.mark.parametrize(
    ("action", "family", "field"),
    [
        ('find_person(name="Ana Ruiz")', "unknown_tool", None),
        ('find_contact(person="Ana Ruiz")', "unexpected_argument", "person"),
        ('find_contact("Ana Ruiz", "Design")', "unexpected_argument", "number 2"),
        ("find_contact()", "missing_argument", "name"),
        ('find_contact("Ana Ruiz", name="Ana Ruiz")', "parse_error", None),
        ("find_contact(name=7)", "type_error", "name"),
        ('convert_units(value=True, from_unit="km", to_unit="miles")', "type_error", "value"),
        (
            'create_event("A", "2026-09-14", "10:00", "ana@nordex.example")',
            "type_error",
            "attendees",
        ),
        ('create_event("A", "2026-09-14", "10:00", [1])', "type_error", "attendees"),
        ('create_event("A", "2026-09-14", "10:00", ["Ana"])', "format_error", "attendees"),
        ('create_event("A", "2026-09-14", "10:00", ["x@y.z"])', "attendee_not_found", "attendees"),
        ('list_events(date="2026-02-30")', "format_error", "date"),
        ('list_events(date="20260907")', "format_error", "date"),
        ('set_reminder(text="A", date="2026-09-14", time="24:00")', "format_error", "time"),
        ('send_message(to="Ana Ruiz", subject="A", body="B")', "format_error", "to"),
        ('send_message(to="x@nordex.example", subject="A", body="B")', "contact_not_found", "to"),
        ('find_contact(name="Ana")', "contact_not_found", "name"),
        ('list_team(team="design")', "team_not_found", "team"),
        ('move_event(title="A", date="2026-09-14", time="10:00")', "event_not_found", "title"),
        ('cancel_event(title="A")', "event_not_found", "title"),
        ('read_file(path="notes/none.txt")', "file_not_found", "path"),
        ('read_file(path="/etc/passwd")', "format_error", "path"),
        ('list_files(folder="none")', "file_not_found", "folder"),
        ('write_file(path="system/settings.cfg", content="")', "permission_error", "path"),
        ('convert_units(1, "km", "kg")', "unsupported_conversion", "to_unit"),
        ('convert_units(1, "leagues", "km")', "unsupported_conversion", "from_unit"),
        # Checks run in order: the tool, argument names, presence, types, formats, then the world.
        ("write_file(paht=1)", "unexpected_argument", "paht"),
        ("write_file(content=1)", "missing_argument", "path"),
        ('set_reminder(text=1, date="soon", time="10:00")', "type_error", "text"),
        ('create_event("A", "soon", "10:00", ["x@y.z"])', "format_error", "date"),
    ],
)
def test_what_is_wrong_with_a_call_is_named(action, family, field):
    outcome = execute(OFFICE, action)
    assert outcome.error is not None
    assert (outcome.error.family, outcome.error.field) == (family, field)
    assert outcome.world is OFFICE
    assert outcome.observation == render_error(outcome.error)


def test_tools_do_what_they_say():
    world = OFFICE
    for action, observation in [
        ('find_contact("Ana Ruiz")', "OK: found contact Ana Ruiz: ana@nordex.example, team Design"),
        ('list_events("2026-09-10")', "OK: listed events on 2026-09-10: 15:00 Press call; "),
        ('cancel_event("Press call")', "OK: cancelled event 'Press call'."),
        ('list_events("2026-09-10")', "OK: listed events on 2026-09-10: 16:15 Logo vote"),
        ('move_event("Logo vote", "2026-09-11", "08:00")', "OK: moved event 'Logo vote' to 2026-"),
        ('list_events("2026-09-10")', "OK: listed events on 2026-09-10: none"),
        ('write_file("notes/launch.txt", "New")', "OK: wrote file notes/launch.txt."),
        ('read_file("notes/launch.txt")', "OK: read file notes/launch.txt: New"),
        ('list_files("notes/")', "OK: listed files in notes/: notes/launch.txt, notes/parking.txt"),
        ('convert_units(1, "miles", "km")', "OK: converted 1 miles to km: 1.61 km"),
        ("finish()", "OK: finished."),
    ]:
        outcome = execute(world, action)
        assert outcome.observation.startswith(observation)
        world = outcome.world
    assert world.finished
    assert not OFFICE.finished


@pytest.mark.parametrize("task", [*probe_tasks(), *single_call_tasks()], ids=lambda t: t.task_id)
def test_a_reference_solution_solves_its_task_at_its_last_call_and_not_before(task):
    assert not task.solved(task.world)
    for number, step in enumerate(task.steps):
        world, _ = reach(task, number)
        assert not task.solved(world)
        calls = [step.gold, step.near, step.aside]
        assert len(set(calls)) == 3
        assert all(execute(world, call).ok for call in calls)
        golds = {done.gold for done in task.steps[:number]}
        assert golds.isdisjoint(calls), "a candidate stands in the history"
        assert parse(step.near).tool == parse(step.gold).tool != parse(step.aside).tool
    world, outcomes = reach(task, len(task.steps))
    assert all(outcome.ok for outcome in outcomes)
    assert task.solved(world)
    assert not world.finished


def test_a_task_needs_all_that_it_asks_for():
    task = next(task for task in probe_tasks() if task.template == "move_event")
    world = execute(task.world, task.steps[2].gold).world
    assert not task.solved(world)
    assert task.solved(execute(world, task.steps[1].gold).world)


def test_tasks_are_enough_and_distinct():
    tasks = [*probe_tasks(), *single_call_tasks()]
    assert len({task.task_id for task in tasks}) == len({task.goal for task in tasks}) == len(tasks)
    assert len(probe_tasks()) >= 58
    assert {2, 3} == {len(task.steps) for task in probe_tasks()}
    assert {1} == {len(task.steps) for task in single_call_tasks()}
    assert len({task.template for task in probe_tasks()}) == 6
    assert len({task.template for task in single_call_tasks()}) == 3


@pytest.mark.parametrize(
    ("one", "same"),
    [
        ('read_file(path="a")', "read_file( 'a' )"),
        ('write_file(path="a", content="b")', "write_file(content='b', path='a')"),
        ('write_file("a", "b")', 'write_file("a", content="b")'),
        ('no_such(b=1, a=[2, "x"])', "no_such(a = (2, 'x'), b = 1)"),
        ("I am  done\n", "I am done"),
    ],
)
def test_calls_that_mean_the_same_have_one_canonical_form(one, same):
    assert canonical(one) == canonical(same)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('read_file(path="a")', 'read_file(path="A")'),
        ('read_file(path="a b")', 'read_file(path="a  b")'),
        ("list_events(date=1)", 'list_events(date="1")'),
        ('write_file("a", "b")', 'write_file("b", "a")'),
        ("read_file(path=1)", "read_file(path=True)"),
        ('write_file("a", path="b")', 'write_file(content="a", path="b")'),
        ('read_file("a", "b")', 'read_file("a")'),
    ],
)
def test_calls_that_differ_keep_different_canonical_forms(one, other):
    assert canonical(one) != canonical(other)


@given(st.dictionaries(NAMES, VALUES), st.lists(VALUES, max_size=3))
def test_a_canonical_form_is_its_own(named, positional):
    form = canonical(str(Call("write_file", named, tuple(positional))))
    assert canonical(form) == form


def test_the_prompt_describes_every_tool_and_the_twelve_are_twelve():
    assert len(TOOLS) == 12
    for tool in CALLABLE.values():
        assert f"- {tool.signature}: {tool.summary}" in SYSTEM_PROMPT
    assert len(FAMILIES) == 13  # the twelve that a call can meet, and parse_error


@pytest.mark.parametrize("family", FAMILIES)
def test_renderings_differ_and_grow(family):
    error = ToolError(family, "write_file", "path", "a.txt", "text")
    terse, standard, verbose = (render_error(error, s) for s in ("terse", "standard", "verbose"))
    assert len(terse) < len(standard) < len(verbose)
    assert verbose.startswith(standard)
    assert "a.txt" not in terse
    assert "{" not in verbose


def test_the_length_limit_is_where_it_says():
    padded = "finish()".ljust(MAX_CHARS)
    assert execute(World(), padded).ok
    assert not execute(World(), padded + " ").ok
