"""The ToolShed pool: what it holds, and that every item is what it claims to be."""

import hashlib
import json
import os
import random
import re
import statistics
import subprocess
import sys
from collections import Counter, defaultdict
from dataclasses import asdict
from pathlib import Path

import pytest

from backfire.conditions import describe
from backfire.environments import KINDS
from backfire.environments.toolshed import canonical, execute, probe_tasks
from backfire.environments.toolshed.calls import parse
from backfire.environments.toolshed.observations import plain
from backfire.environments.toolshed.offices import OFFICES
from backfire.environments.toolshed.operators import OPERATORS
from backfire.environments.toolshed.pool import PER_OPERATOR
from backfire.environments.toolshed.tasks import address, reach
from backfire.environments.toolshed.tools import CALLABLE
from backfire.items import draw, from_table, to_table

SEED = 20260808
POOL = KINDS["toolshed"].build_pool({"kind": "toolshed"}, SEED)
ITEMS = POOL.items
TASKS = {task.task_id: task for task in probe_tasks()}

# The pool was frozen before anything was scored. A change of this value changes the study.
FROZEN = "ff5bed59f091624ff1a697e1ed500d961c69395055d0dd07820a6b1ddcc6e4b2"

FAMILIES_OF = {
    "drop_arg": {"missing_argument"},
    "tool_typo": {"unknown_tool"},
    "arg_typo": {"unexpected_argument"},
    "type_swap": {"type_error"},
    "date_format": {"format_error"},
    "hallucinated_entity": {
        "attendee_not_found",
        "contact_not_found",
        "event_not_found",
        "file_not_found",
        "team_not_found",
        "unsupported_conversion",
    },
    "name_for_email": {"format_error"},
    "readonly_target": {"permission_error"},
}


def every_item(test):
    """One test that runs over the whole pool and names the item that it fails on."""

    def run():
        for item in ITEMS:
            try:
                test(item)
            except AssertionError as error:
                error.add_note(item.item_id)
                raise

    return run


def world_of(item):
    world, _ = reach(TASKS[item.task_id], item.step - 1)
    return world


def digest(items):
    text = json.dumps([asdict(item) for item in items], sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def test_the_pool_is_the_frozen_one():
    assert digest(ITEMS) == FROZEN


def test_the_pool_does_not_depend_on_hash_seed_locale_or_time_zone():
    program = (
        "from test_toolshed_pool import *; import locale, time; "
        "locale.setlocale(locale.LC_ALL, ''); print(digest(ITEMS), time.tzname[0])"
    )
    here = Path(__file__).parent
    environment = os.environ | {
        "PYTHONPATH": f"{here}{os.pathsep}{here.parent / 'workflow'}",
        "PYTHONHASHSEED": "4711",
        "LC_ALL": "C",
        "TZ": "XYZ-13",
    }
    run = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    assert run.stdout.split() == [digest(ITEMS), "XYZ"]


def test_another_seed_gives_another_pool_of_the_same_make():
    other = KINDS["toolshed"].build_pool({"kind": "toolshed"}, SEED + 1)
    assert digest(other.items) != digest(ITEMS)
    assert Counter(item.operator for item in other.items) == Counter(
        item.operator for item in ITEMS
    )


def test_size_and_lengths_are_near_the_published_ones():
    assert 260 <= len(ITEMS) <= 290
    assert len({item.task_id for item in ITEMS}) >= 58
    action = statistics.mean(len(item.failed_action) for item in ITEMS)
    observation = statistics.mean(len(item.observations["fail"]) for item in ITEMS)
    assert action == pytest.approx(57, rel=0.15)
    assert observation == pytest.approx(75, rel=0.15)


def test_every_operator_meets_its_families_and_none_exceeds_the_cap():
    met = defaultdict(set)
    for item in ITEMS:
        met[item.operator].add(item.error_family)
    assert met == FAMILIES_OF
    assert len(set().union(*met.values())) == 12
    assert max(Counter(item.operator for item in ITEMS).values()) == PER_OPERATOR


def test_what_was_left_out_is_counted():
    made = [
        operator(parse(step.gold), task.world, random.Random(0))
        for task in TASKS.values()
        for step in task.steps
        for operator in OPERATORS.values()
    ]
    left_out = sum(call is not None for call in made) - len(ITEMS)
    assert POOL.notes == {"over the cap per operator": left_out}


def test_ids_are_unique_and_the_table_gives_the_items_back():
    assert len({item.item_id for item in ITEMS}) == len(ITEMS)
    assert from_table(to_table(ITEMS)) == ITEMS


def test_the_study_can_be_drawn():
    drawn = draw(ITEMS, 100, 3, SEED)
    assert max(Counter(item.task_id for item in drawn).values()) <= 3
    assert set(Counter(item.operator for item in drawn).values()) == {12, 13}


@every_item
def test_the_failed_action_fails_as_recorded(item):
    world = world_of(item)
    outcome = execute(world, item.failed_action)
    assert outcome.error is not None
    assert outcome.observation == item.observations["fail"]
    assert outcome.error_family == item.error_family == item.error["family"]
    assert item.tool == parse(item.failed_action).tool == item.error["tool"]
    assert outcome.world is world


@every_item
def test_the_history_is_what_the_runtime_said(item):
    world = TASKS[item.task_id].world
    assert len(item.history) == item.step - 1
    for turn in item.history:
        outcome = execute(world, turn.action)
        assert outcome.ok
        assert outcome.observation == turn.observation
        world = outcome.world


@every_item
def test_candidates_are_four_and_only_the_failed_one_fails(item):
    candidates = list(item.candidates.values())
    assert len(candidates) == 4
    assert len({canonical(candidate) for candidate in candidates}) == 4
    for one in candidates:
        assert not any(other.startswith(one) for other in candidates if other is not one)
        assert execute(world_of(item), one).ok == (one != item.failed_action)


def entities():
    for office in OFFICES:
        for name, team in office.people:
            yield from (name, team, address(office, name))
        for planned in (*office.agenda, office.invitation, office.workshop, office.reminder):
            yield planned.title
        for note in (*office.notes, office.memo):
            yield from note
        yield from (office.summary_path, office.conversion.path, office.system_file, office.subject)


ENTITIES = sorted(set(entities()))


@every_item
def test_a_counterfactual_success_tells_of_this_call_alone(item):
    success = item.observations["succ"]
    assert success.startswith("OK: ")
    assert "rror" not in success
    values = [plain(value) for value in parse(item.failed_action).named.values()]
    told = [value for value in values if value in success]
    assert told or not values or item.failed_action.startswith("write_file(content")
    for entity in ENTITIES:
        assert entity not in success or any(entity in value for value in values)


@every_item
def test_a_success_opens_like_the_real_one(item):
    real = execute(world_of(item), item.gold_action).observation
    assert item.observations["succ"].split()[:2] == real.split()[:2]


def test_neutral_has_no_valence_and_is_one_for_all():
    assert {item.observations["neut"] for item in ITEMS} == {"Received."}


@every_item
def test_renderings_are_of_the_same_error(item):
    observations = item.observations
    assert observations["verbose"].startswith(observations["fail"])
    assert observations["echo"].startswith(observations["fail"])
    assert observations["echo"].endswith(item.failed_action)
    assert observations["terse"] == f"Error: {item.error_family.replace('_', ' ')}."


@every_item
def test_the_abstract_description_holds_nothing_of_the_call_but_the_tool(item):
    text = describe(item.tool, item.error_family)
    call = parse(item.failed_action)
    assert not any(plain(value) in text for value in call.named.values())
    own = text.replace(item.tool, "").replace(item.error_family.replace("_", " "), "")
    fragments = [*call.named, *map(plain, call.named.values())]
    words = {word for fragment in fragments for word in re.findall(r"\w{3,}", fragment)}
    assert words.isdisjoint(re.findall(r"\w+", own))


def leaves(action):
    for value in parse(action).named.values():
        yield from value if isinstance(value, list) else [plain(value)]


def stands_in(value, text):
    return re.search(rf"(?<![\w-]){re.escape(value)}(?![\w-])", text) is not None


@every_item
def test_the_other_failure_is_of_the_same_step_and_another_call(item):
    assert canonical(item.other.action) != canonical(item.failed_action)
    outcome = execute(world_of(item), item.other.action)
    assert not outcome.ok
    assert outcome.observation == item.other.observation


@every_item
def test_the_unrelated_failure_shares_no_value(item):
    action, observation = item.unrelated
    assert observation.startswith("Error: ")
    tools = {parse(item.gold_action).tool, item.tool}
    assert parse(action).tool not in tools
    assert not any(tool in observation for tool in tools)
    for text in (item.failed_action, item.gold_action, item.goal):
        assert not any(stands_in(leaf, text) for leaf in leaves(action))
    for value in [*leaves(item.failed_action), *leaves(item.gold_action)]:
        assert not stands_in(value, action + observation)


def test_unrelated_failures_are_about_as_long():
    pairs = [(len(item.unrelated.action), len(item.failed_action)) for item in ITEMS]
    assert statistics.mean(abs(one - other) for one, other in pairs) < 8


def test_typos_are_no_tools():
    assert not {item.tool for item in ITEMS if item.operator == "tool_typo"} & set(CALLABLE)
