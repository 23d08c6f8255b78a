"""How a failure is written into a transcript.

A condition is one function `(item, ctx) -> messages`, registered here under its name; it
returns None for an item that lacks what it needs. To add one, write it below and name it
in the config.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypedDict

from backfire.items import Item, Turn


class Message(TypedDict):
    role: str
    content: str


class Context(Protocol):
    """What a condition may ask about the model it writes for."""

    @property
    def has_tool_role(self) -> bool: ...

    def count_tokens(self, text: str) -> int: ...


Writer = Callable[[Item, Context], list[Message] | None]


@dataclass(frozen=True)
class Condition:
    """A registered condition: `write` makes the messages, `summary` says what they hold.

    Under a condition with `every_candidate` all of an item's candidates are scored, elsewhere
    the failed action alone.
    """

    name: str
    summary: str
    write: Writer
    every_candidate: bool


CONDITIONS: dict[str, Condition] = {}


def condition(
    name: str, summary: str, *, every_candidate: bool = False
) -> Callable[[Writer], Writer]:
    """Register the decorated function as the condition `name`."""

    def register(write: Writer) -> Writer:
        CONDITIONS[name] = Condition(name, summary, write, every_candidate)
        return write

    return register


def turns(history: Sequence[Turn]) -> list[Message]:
    """A history as alternating assistant and user messages."""
    messages: list[Message] = []
    for turn in history:
        messages.append({"role": "assistant", "content": turn.action})
        messages.append({"role": "user", "content": turn.observation})
    return messages


def before(item: Item) -> list[Message]:
    """All that stands before the attempt: system prompt, goal, history."""
    return [
        {"role": "system", "content": item.system},
        {"role": "user", "content": item.goal},
        *turns(item.history),
    ]


def attempt(item: Item, observation: str) -> list[Message] | None:
    """The attempt at the end of its context, followed by a rendering of its observation."""
    text = item.observations.get(observation)
    if text is None:
        return None
    return [*before(item), *turns([Turn(item.failed_action, text)])]


def describe(tool: str | None, error_family: str) -> str:
    """A failure in words, from the runtime's error metadata and nothing of the call itself."""
    what = "attempt" if tool is None else f"call to {tool}"
    return f"Note: an earlier {what} failed ({error_family.replace('_', ' ')})."


@condition("pre", "no attempt yet: system prompt, goal and history", every_candidate=True)
def pre(item: Item, ctx: Context) -> list[Message] | None:
    return before(item)


@condition("fail", "the attempt and its error", every_candidate=True)
def fail(item: Item, ctx: Context) -> list[Message] | None:
    return attempt(item, "fail")


@condition("succ", "the attempt and a counterfactual success")
def succ(item: Item, ctx: Context) -> list[Message] | None:
    return attempt(item, "succ")


@condition("neut", "the attempt and an acknowledgement without valence")
def neut(item: Item, ctx: Context) -> list[Message] | None:
    return attempt(item, "neut")


@condition(
    "abstract",
    "a description of the failure; the call and its turn are absent",
    every_candidate=True,
)
def abstract(item: Item, ctx: Context) -> list[Message] | None:
    if item.error_family is None:
        return None
    note = describe(item.tool, item.error_family)
    return [*before(item), {"role": "user", "content": note}]


ALL_CANDIDATES = frozenset(each.name for each in CONDITIONS.values() if each.every_candidate)
"""The conditions under which every candidate is scored."""
