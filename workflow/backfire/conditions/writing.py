"""The pieces that conditions, and the harnesses of rollouts, are written from."""

from __future__ import annotations

from collections.abc import Sequence

from backfire.conditions.registry import Message
from backfire.items import Item, Turn

INSTRUCTION = "If an attempt has failed, do not write it again: write a different one."
"""The popular remedy: asking the model not to repeat itself."""


def turns(history: Sequence[Turn], observer: str = "user") -> list[Message]:
    """A history as alternating messages of the assistant and the `observer`."""
    messages: list[Message] = []
    for turn in history:
        messages.append({"role": "assistant", "content": turn.action})
        messages.append({"role": observer, "content": turn.observation})
    return messages


def opening(item: Item) -> list[Message]:
    """System prompt and goal."""
    return [
        {"role": "system", "content": item.system},
        {"role": "user", "content": item.goal},
    ]


def before(item: Item) -> list[Message]:
    """All that stands before the attempt: system prompt, goal, history."""
    return [*opening(item), *turns(item.history)]


def record(item: Item, observation: str, action: str | None = None) -> Turn | None:
    """The attempt, or `action` in its place, with a rendering of its observation."""
    text = item.observations.get(observation)
    if text is None:
        return None
    return Turn(item.failed_action if action is None else action, text)


def after(item: Item, turn: Turn | None, times: int = 1) -> list[Message] | None:
    """A turn, once or several times, at the end of the item's context."""
    return None if turn is None else [*before(item), *turns([turn] * times)]


def attempt(item: Item, observation: str) -> list[Message] | None:
    """The attempt at the end of its context, followed by a rendering of its observation."""
    return after(item, record(item, observation))


def noted(item: Item, note: str | None) -> list[Message] | None:
    """A note by the user in place of the attempt."""
    return None if note is None else [*before(item), {"role": "user", "content": note}]


def instructed(messages: list[Message] | None) -> list[Message] | None:
    """The messages with `INSTRUCTION` at the end of the system prompt."""
    if messages is None:
        return None
    system, *rest = messages
    return [{"role": "system", "content": f"{system['content']}\n\n{INSTRUCTION}".lstrip()}, *rest]


def describe(tool: str | None, error_family: str) -> str:
    """A failure in words, from the runtime's error metadata and nothing of the call itself."""
    what = "attempt" if tool is None else f"call to {tool}"
    return f"Note: an earlier {what} failed ({error_family.replace('_', ' ')})."


def description(item: Item) -> str | None:
    """The failure of an item in words, where its error family is known."""
    return None if item.error_family is None else describe(item.tool, item.error_family)
