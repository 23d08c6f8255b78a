"""CodeRepair as a playground: programs to be written until they pass, one task at a time."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

from backfire.environments.coderepair.observations import (
    NEUTRAL,
    render_echo,
    render_error,
    render_success,
)
from backfire.environments.coderepair.runtime import Outcome as Run
from backfire.environments.coderepair.runtime import canonical, execute_all, sound_tasks
from backfire.environments.coderepair.tasks import SYSTEM_PROMPT, syntax_tree
from backfire.environments.coderepair.tasks import Task as Problem
from backfire.items import Turn
from backfire.play import Demonstration, Outcome, Playground, State, Task
from backfire.replies import PROGRAM

MAX_TOKENS = 256

EXAMPLE = "def double(number): return 2 * number"

DEMONSTRATIONS = 3
"""So many problems, those with the shortest solutions, are shown solved and set to nobody."""


def playground(settings: Mapping[str, Any], seed: int) -> Playground:
    """The problems of the configured source, in a seeded order."""
    problems, _ = sound_tasks(settings)
    random.Random(f"coderepair/{seed}/rollouts").shuffle(problems)
    shortest = sorted(problems, key=lambda problem: (len(problem.gold_action), problem.task_id))
    shown = shortest[:DEMONSTRATIONS]
    by_id = {problem.task_id: problem for problem in problems}

    def carry_out(actions: Sequence[tuple[Task, State, str]]) -> list[Outcome]:
        runs = execute_all((by_id[task.task_id], action) for task, _, action in actions)
        return [
            _outcome(by_id[task.task_id], run, action)
            for (task, _, action), run in zip(actions, runs, strict=True)
        ]

    return Playground(
        system=SYSTEM_PROMPT,
        tasks=[Task(one.task_id, None, one.goal, None) for one in problems if one not in shown],
        execute=carry_out,
        canonical=canonical,
        reference=lambda task, done: by_id[task.task_id].gold_action,
        reply=PROGRAM,
        example=EXAMPLE,
        demonstrations=[_demonstrate(problem) for problem in shown],
        max_tokens=MAX_TOKENS,
    )


def _demonstrate(problem: Problem) -> Demonstration:
    success = render_success(len(problem.tests))
    return Demonstration(problem.goal, (Turn(problem.gold_action, success),))


def _outcome(problem: Problem, run: Run, action: str) -> Outcome:
    error = run.error
    renderings = {"fail": run.observation, "neut": NEUTRAL}
    if error is not None:
        renderings["terse"] = render_error(error, "terse")
        renderings["verbose"] = render_error(error, "verbose")
        renderings["echo"] = render_echo(error, action)
        renderings["succ"] = render_success(len(problem.tests))
    return Outcome(
        state=None,
        observation=run.observation,
        ok=run.ok,
        solved=run.ok,
        readable=syntax_tree(action) is not None,
        error_family=run.error_family,
        error=None if error is None else error.as_dict(),
        renderings=renderings,
    )
