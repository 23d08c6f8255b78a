"""ToolShed as a playground: single-call and multi-call tasks in turn, demonstrations apart."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from itertools import chain, zip_longest
from typing import Any

from backfire.environments.toolshed.calls import ParseError, parse
from backfire.environments.toolshed.observations import (
    NEUTRAL,
    render_echo,
    render_error,
    render_success,
)
from backfire.environments.toolshed.offices import OFFICES
from backfire.environments.toolshed.runtime import World, canonical, execute
from backfire.environments.toolshed.tasks import Task, probe_tasks, single_call_tasks
from backfire.environments.toolshed.tools import SYSTEM_PROMPT, TOOLS
from backfire.items import Turn
from backfire.play import Demonstration, Outcome, Playground
from backfire.play import Task as Played
from backfire.replies import CALL

MAX_TOKENS = 80
"""The longest reference call has 68 tokens of SmolLM2's."""

EXAMPLE = 'find_contact(name="Ada Lovelace")'


def playground(settings: Mapping[str, Any], seed: int) -> Playground:
    """Tasks in all offices but the last, which the demonstrations are set in."""
    tasks = {task.task_id: task for task in chain(single_call_tasks(), probe_tasks())}

    def carry_out(actions: Sequence[tuple[Played, World, str]]) -> list[Outcome]:
        return [_outcome(tasks[task.task_id], world, action) for task, world, action in actions]

    def reference(task: Played, done: Sequence[str]) -> str | None:
        """The first call of the reference solution that is not among the actions so far."""
        known = set(map(canonical, done))
        calls = [step.gold for step in tasks[task.task_id].steps]
        return next((call for call in calls if canonical(call) not in known), None)

    return Playground(
        system=SYSTEM_PROMPT,
        tasks=[
            Played(task.task_id, task.template, task.goal, task.world) for task in _in_order(seed)
        ],
        execute=carry_out,
        canonical=canonical,
        reference=reference,
        reply=CALL,
        example=EXAMPLE,
        demonstrations=[_demonstrate(task) for task in single_call_tasks() if _set_apart(task)],
        max_tokens=MAX_TOKENS,
    )


def _set_apart(task: Task) -> bool:
    return task.task_id.endswith(f"-{OFFICES[-1].domain.split('.')[0]}")


def _in_order(seed: int) -> list[Task]:
    """A single-call and a multi-call task in turn, of each the templates in turn."""
    rng = random.Random(f"toolshed/{seed}/rollouts")
    kinds = []
    for tasks in (single_call_tasks(), probe_tasks()):
        templates: dict[str, list[Task]] = {}
        for task in tasks:
            if not _set_apart(task):
                templates.setdefault(task.template, []).append(task)
        for group in templates.values():
            rng.shuffle(group)
        kinds.append(list(chain.from_iterable(zip(*templates.values(), strict=True))))
    pairs = zip_longest(*kinds)
    return [task for task in chain.from_iterable(pairs) if task is not None]


def _demonstrate(task: Task) -> Demonstration:
    turns, world = [], task.world
    for call in (*(step.gold for step in task.steps), "finish()"):
        outcome = execute(world, call)
        turns.append(Turn(call, outcome.observation))
        world = outcome.world
    return Demonstration(task.goal, tuple(turns))


def _outcome(task: Task, world: World, action: str) -> Outcome:
    outcome = execute(world, action)
    error = outcome.error
    try:
        call = parse(action)
    except ParseError:
        call = None
    renderings = {"fail": outcome.observation, "neut": NEUTRAL}
    if error is not None:
        renderings["terse"] = render_error(error, "terse")
        renderings["verbose"] = render_error(error, "verbose")
        renderings["echo"] = render_echo(error, action)
        if call is not None and call.tool in TOOLS:
            renderings["succ"] = render_success(call.tool, call.named)
    return Outcome(
        state=outcome.world,
        observation=outcome.observation,
        ok=outcome.ok,
        solved=task.solved(outcome.world),
        finished=outcome.world.finished,
        readable=call is not None,
        tool=None if call is None else call.tool,
        error_family=outcome.error_family,
        error=None if error is None else error.as_dict(),
        renderings=renderings,
    )
