"""The probe items of CodeRepair: failing mutants of reference solutions, run for real."""

from __future__ import annotations

import builtins
import keyword
import random
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

from backfire.environments.base import Pool
from backfire.environments.coderepair.observations import (
    NEUTRAL,
    ProgramError,
    render_echo,
    render_error,
    render_success,
)
from backfire.environments.coderepair.operators import OPERATORS, Mutant, mutants
from backfire.environments.coderepair.runtime import execute_all, sound_tasks
from backfire.environments.coderepair.tasks import Task, syntax_tree
from backfire.items import Item, Turn

PER_OPERATOR = 30
"""The most items of one operator, each of another task."""

SITES = 2
"""The most mutants of one operator tried on one task, among those that parse and among others."""


_UNSTEADY = ("MemoryError", "RecursionError", "SystemError")
"""Errors that come when something runs out; when, and in what words, depends on the machine
and the version of Python."""

_WAVE = 32
"""How many tasks are run before looking which operators still want items."""


class Failure(NamedTuple):
    """A mutant that fails its tests, and how."""

    task: Task
    mutant: Mutant
    error: ProgramError

    @property
    def kind(self) -> tuple[str, str]:
        return self.mutant.operator, self.error.family

    @property
    def turn(self) -> Turn:
        return Turn(self.mutant.program, render_error(self.error))

    @property
    def words(self) -> frozenset[str]:
        """What tells the task from others, in its code and its tests."""
        tests = "\n".join(test.text for test in self.task.tests)
        return _words(f"{self.task.gold_action}\n{self.mutant.program}\n{tests}")


def build_pool(settings: Mapping[str, Any], seed: int) -> Pool:
    """The probe items of CodeRepair, each operator on at most `PER_OPERATOR` tasks.

    Tasks are gone through in a seeded order, and each gives at most one item of an operator
    that still wants some: of its failing mutants the one whose error family that operator
    has met least. Candidates beside the failed and the reference program are two other
    failing mutants of the task, of other operators first, such that none of the four is a
    prefix of another; a mutant for which there are not two is left out.

    Args:
        settings: `problems`, and `path` where they are `mbpp`.
        seed: of the study; it decides the order of the tasks and which edits are tried.

    Raises:
        UserError: the problems cannot be read.
    """
    tasks, notes = sound_tasks(settings)
    random.Random(f"coderepair/{seed}").shuffle(tasks)
    wanted = Counter(dict.fromkeys(OPERATORS, PER_OPERATOR))
    met: Counter[tuple[str, str]] = Counter()
    tried: list[list[Failure]] = []
    chosen: list[tuple[Failure, list[Failure]]] = []
    for start in range(0, len(tasks), _WAVE):
        wave = [_sample(task, seed, notes) for task in tasks[start : start + _WAVE]]
        wave = [sample for sample in wave if any(wanted[one.operator] for _, one in sample)]
        for failures in _failures(wave, notes):
            tried.append(failures)
            for operator in OPERATORS:
                fit = [
                    (failure, others)
                    for failure in failures
                    if failure.mutant.operator == operator
                    and len(others := _others(failure, failures)) >= 2
                ]
                if fit and wanted[operator]:
                    best = min(fit, key=lambda pair: met[pair[0].kind])
                    chosen.append(best)
                    met[best[0].kind] += 1
                    wanted[operator] -= 1
    strangers = list(chain.from_iterable(tried))
    items = [_item(failure, others, strangers) for failure, others in chosen]
    return Pool(sorted(items, key=lambda item: item.item_id), dict(notes))


def _failures(
    wave: Sequence[Sequence[tuple[Task, Mutant]]], notes: Counter[str]
) -> list[list[Failure]]:
    """The failing mutants of each task, in the order given."""
    outcomes = iter(execute_all((task, one.program) for sample in wave for task, one in sample))
    found = []
    for sample in wave:
        failures = []
        for (task, mutant), outcome in zip(sample, outcomes, strict=False):
            if outcome.error is None:
                notes["mutants that pass every test"] += 1
            elif outcome.error.type in _UNSTEADY:
                notes["mutants that exhaust memory or the stack"] += 1
            else:
                failures.append(Failure(task, mutant, outcome.error))
        found.append(failures)
    return found


def _sample(task: Task, seed: int, notes: Counter[str]) -> list[tuple[Task, Mutant]]:
    """The mutants of a task that are tried, in a seeded order."""
    try:
        everything = mutants(task.gold_action)
    except ValueError:
        notes["problems whose reference cannot be mutated"] += 1
        return []
    found: dict[tuple[str, bool], list[Mutant]] = {}
    for mutant in everything:
        parses = syntax_tree(mutant.program) is not None
        found.setdefault((mutant.operator, parses), []).append(mutant)
    rng = random.Random(f"coderepair/{seed}/{task.task_id}")
    sampled = [
        (task, mutant)
        for kind in sorted(found)
        for mutant in rng.sample(found[kind], min(SITES, len(found[kind])))
    ]
    rng.shuffle(sampled)
    return sampled


def _others(failure: Failure, siblings: Sequence[Failure]) -> list[Failure]:
    """The other failures of the task that can stand beside this one, other operators' first."""
    candidates = [failure.task.gold_action, failure.mutant.program]
    others = []
    own = failure.mutant.operator
    for sibling in sorted(siblings, key=lambda one: one.mutant.operator == own):
        text = sibling.mutant.program
        if not any(_prefixed(text, known) for known in candidates):
            candidates.append(text)
            others.append(sibling)
    return others


def _item(failure: Failure, others: Sequence[Failure], strangers: Sequence[Failure]) -> Item:
    task, (operator, site, program, _), error = failure
    first, second, *rest = others
    return Item(
        item_id=f"{task.task_id}.{operator}.{site}",
        task_id=task.task_id,
        operator=operator,
        error_family=error.family,
        system=task.system,
        goal=task.goal,
        history=(),
        failed_action=program,
        gold_action=task.gold_action,
        distractors=(first.mutant.program, second.mutant.program),
        observations={
            "fail": render_error(error),
            "terse": render_error(error, "terse"),
            "verbose": render_error(error, "verbose"),
            "echo": render_echo(error, program),
            "succ": render_success(len(task.tests)),
            "neut": NEUTRAL,
        },
        other=(rest[0] if rest else first).turn,
        unrelated=_unrelated(failure, strangers),
        error=error.as_dict(),
    )


def _prefixed(one: str, other: str) -> bool:
    return one.startswith(other) or other.startswith(one)


def _unrelated(failure: Failure, strangers: Sequence[Failure]) -> Turn | None:
    """The failing program closest in length that shares no word with this one or its task."""
    length = len(failure.mutant.program)
    for other in sorted(strangers, key=lambda other: abs(len(other.mutant.program) - length)):
        if other.words.isdisjoint(failure.words):
            return other.turn
    return None


def _words(text: str) -> frozenset[str]:
    """The names, numbers and other words of three characters or more that are not Python's."""
    words = {word for word in re.findall(r"\w+", text) if len(word) >= 3}
    return frozenset(words - _PYTHON)


_PYTHON = frozenset([*dir(builtins), *keyword.kwlist, *keyword.softkwlist])
