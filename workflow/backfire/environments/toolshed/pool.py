"""The ToolShed pool: every perturbation of every reference call, capped per operator."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, zip_longest
from typing import Any

from backfire.environments.base import Pool
from backfire.environments.toolshed.calls import Call, Value, parse
from backfire.environments.toolshed.observations import (
    NEUTRAL,
    ToolError,
    plain,
    render_echo,
    render_error,
    render_success,
)
from backfire.environments.toolshed.operators import OPERATORS
from backfire.environments.toolshed.runtime import execute
from backfire.environments.toolshed.tasks import Task, probe_tasks, reach
from backfire.environments.toolshed.tools import SYSTEM_PROMPT, TOOLS
from backfire.items import Item, Turn

PER_OPERATOR = 38
"""At most so many items of one operator, spread evenly over the steps that it applies to."""


@dataclass(frozen=True)
class _Failure:
    """A perturbed call that fails at a step of a task's reference solution."""

    task: Task
    step: int
    operator: str
    gold: Call
    call: Call
    observation: str
    error: ToolError

    @property
    def place(self) -> str:
        return f"{self.task.task_id}.{self.step + 1}"

    @cached_property
    def turn(self) -> Turn:
        return Turn(str(self.call), self.observation)

    @cached_property
    def words(self) -> frozenset[str]:
        """The words of its values, and of the one that the error names."""
        values = [*self.call.named.values(), self.error.value]
        return _words(" ".join(map(plain, values)))


def build_pool(settings: Mapping[str, Any], seed: int) -> Pool:
    """The probe items of ToolShed; `seed` decides the choices of operators and of the cap."""
    failures = [failure for task in probe_tasks() for failure in _failures(task, seed)]
    kept = list(chain.from_iterable(_capped(failures, name, seed) for name in OPERATORS))
    items = [_item(failure, failures, seed) for failure in kept]
    return Pool(
        sorted(items, key=lambda item: item.item_id),
        {"over the cap per operator": len(failures) - len(kept)},
    )


def _failures(task: Task, seed: int) -> Iterable[_Failure]:
    for number, step in enumerate(task.steps):
        world, _ = reach(task, number)
        gold = parse(step.gold)
        for name, operator in OPERATORS.items():
            rng = random.Random(f"toolshed/{seed}/{task.task_id}/{number}/{name}")
            call = operator(gold, world, rng)
            if call is None:
                continue
            outcome = execute(world, str(call))
            assert outcome.error is not None, f"{call} does not fail"
            yield _Failure(task, number, name, gold, call, outcome.observation, outcome.error)


def _capped(failures: Sequence[_Failure], operator: str, seed: int) -> list[_Failure]:
    """Error families in turn, within each the steps of the templates in turn, until the cap."""
    rng = random.Random(f"toolshed/{seed}/cap/{operator}")
    families: dict[str, dict[tuple[str, int], list[_Failure]]] = {}
    for failure in failures:
        if failure.operator == operator:
            steps = families.setdefault(failure.error.family, {})
            steps.setdefault((failure.task.template, failure.step), []).append(failure)
    for steps in families.values():
        for group in steps.values():
            rng.shuffle(group)
    return _in_turn([_in_turn(list(steps.values())) for steps in families.values()])[:PER_OPERATOR]


def _in_turn(groups: Sequence[Sequence[_Failure]]) -> list[_Failure]:
    """One of each group after the other, until all are used up."""
    rounds = zip_longest(*groups)
    return [failure for failure in chain.from_iterable(rounds) if failure is not None]


def _item(failure: _Failure, failures: Sequence[_Failure], seed: int) -> Item:
    task, step = failure.task, failure.task.steps[failure.step]
    action = str(failure.call)
    _, done = reach(task, failure.step)
    past = zip(task.steps, done, strict=False)
    return Item(
        item_id=f"{failure.place}.{failure.operator}",
        task_id=task.task_id,
        template=task.template,
        step=failure.step + 1,
        operator=failure.operator,
        error_family=failure.error.family,
        tool=failure.call.tool,
        system=SYSTEM_PROMPT,
        goal=task.goal,
        history=tuple(Turn(before.gold, outcome.observation) for before, outcome in past),
        failed_action=action,
        gold_action=step.gold,
        distractors=(step.near, step.aside),
        observations={
            "fail": failure.observation,
            "terse": render_error(failure.error, "terse"),
            "verbose": render_error(failure.error, "verbose"),
            "echo": render_echo(failure.error, action),
            "succ": render_success(failure.gold.tool, _meant(failure.call, failure.gold)),
            "neut": NEUTRAL,
        },
        other=_other(failure, failures, seed),
        unrelated=_unrelated(failure, failures),
        error=failure.error.as_dict(),
    )


def _meant(call: Call, gold: Call) -> dict[str, Value]:
    """The call's own values under the names that its tool knows."""
    missing = iter(name for name in gold.named if name not in call.named)
    known = TOOLS[gold.tool].param
    return {name if known(name) else next(missing): value for name, value in call.named.items()}


def _other(failure: _Failure, failures: Sequence[_Failure], seed: int) -> Turn:
    """A failing call of the same step by another operator."""
    choices = [
        one.turn for one in failures if one.place == failure.place and one.call != failure.call
    ]
    rng = random.Random(f"toolshed/{seed}/other/{failure.place}/{failure.operator}")
    return rng.choice(choices)


def _unrelated(failure: _Failure, failures: Sequence[_Failure]) -> Turn | None:
    """The failing call of another tool, nothing in common with this item, closest in length."""
    taken = failure.words | _words(f"{failure.task.goal} {failure.gold}")
    eligible = [
        one.turn
        for one in failures
        if failure.gold.tool not in (one.gold.tool, one.call.tool) and taken.isdisjoint(one.words)
    ]
    return min(eligible, key=lambda turn: (_distance(turn, failure.turn), turn), default=None)


def _distance(one: Turn, other: Turn) -> int:
    """How far two turns are apart in length."""
    pairs = zip(one, other, strict=True)
    return sum(abs(len(text) - len(counterpart)) for text, counterpart in pairs)


def _words(text: str) -> frozenset[str]:
    """The words and numbers in a text: what two calls could have in common."""
    return frozenset(re.findall(r"[0-9]+|[^\W\d_]{2,}", text.lower()))
