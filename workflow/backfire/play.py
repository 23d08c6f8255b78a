"""What an environment offers to a model that acts in it.

An environment that can be played has a module `rollouts` with

    playground(settings, seed) -> Playground
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from backfire.environments import KINDS
from backfire.items import Turn
from backfire.replies import Reply

State = Any
"""Whatever an environment keeps between two actions; immutable."""


@dataclass(frozen=True)
class Task:
    """A goal to be reached from a state."""

    task_id: str
    template: str | None
    goal: str
    state: State


@dataclass(frozen=True)
class Outcome:
    """What came of an action.

    Attributes:
        observation: what the model is shown.
        solved: whether the goal predicate holds now; nothing else counts as success.
        finished: whether the model said that it is done.
        readable: whether the action is a call, or a program, at all.
        tool, error_family, error: the runtime's own metadata of a failure.
        renderings: other ways to print it, as `Item.observations` names them.
    """

    state: State
    observation: str
    ok: bool
    solved: bool
    finished: bool = False
    readable: bool = True
    tool: str | None = None
    error_family: str | None = None
    error: Mapping[str, Any] | None = None
    renderings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Demonstration:
    """A solved task: its goal and the turns that reached it."""

    goal: str
    turns: tuple[Turn, ...]


@dataclass(frozen=True)
class Playground:
    """An environment as a model meets it.

    Attributes:
        system: the system prompt.
        tasks: in a seeded order, so that fewer tasks are a prefix of more.
        execute: carries out one action of each of several (task, state) pairs.
        canonical: one spelling for actions that mean the same.
        reference: what would be right in a state, given the actions so far, if that is known.
        reply: the form of a reply.
        example: a reply alone, for the format line.
        demonstrations: solved tasks from a world that no task is set in.
        max_tokens: the most tokens of a turn.
    """

    system: str
    tasks: Sequence[Task]
    execute: Callable[[Sequence[tuple[Task, State, str]]], list[Outcome]]
    canonical: Callable[[str], str]
    reference: Callable[[Task, Sequence[str]], str | None]
    reply: Reply
    example: str
    demonstrations: Sequence[Demonstration]
    max_tokens: int


def playground(kind: str, settings: Mapping[str, Any], seed: int) -> Playground:
    """The playground of an environment of this kind.

    Raises:
        UserError: the environment's own files cannot be read.
    """
    made = import_module(f"{KINDS[kind].package}.rollouts").playground(settings, seed)
    assert isinstance(made, Playground)
    return made
