"""What a condition is, and the one place where all of them are registered."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypedDict

from backfire.items import Item


class Message(TypedDict):
    role: str
    content: str


class Context(Protocol):
    """What a condition may ask about the model it writes for."""

    @property
    def has_tool_role(self) -> bool:
        """Whether the chat template renders the role `tool` in a way of its own."""

    def count_tokens(self, text: str) -> int:
        """The number of tokens of a text that stands alone."""

    def native_call(self, tool: str, arguments: Mapping[str, Any]) -> str | None:
        """A tool call as the chat template writes it; None where it has no form for calls."""


Writer = Callable[[Item, Context], list[Message] | None]

Kind = Literal["reference", "message", "form", "format", "control", "wording", "own"]
"""What a condition is for.

- `reference`: a term of the decompositions;
- `message`: the call stays, the text that follows it or the instructions change;
- `form`: what of the call stands in the transcript, how often and where;
- `format`: the whole transcript in another notation, as deployed harnesses have it;
- `control`: answers an objection to the measurement and is no way to write a record;
- `wording`: another condition in other words;
- `own`: a user's.
"""

CORE = ("pre", "fail", "succ", "neut", "abstract")
"""The conditions of the main study."""


@dataclass(frozen=True)
class Condition:
    """A registered condition: `write` makes the messages, `summary` says what they hold.

    Attributes:
        write: the messages for an item; None where the item, or the model, lacks what it takes.
        every_candidate: whether all of an item's candidates are scored, elsewhere the failed
            action alone.
        kind: what it is for.
        baseline: the condition without an attempt that its G is taken against.
        gold: whether the right action is scored beside the failed one.
        action: how a candidate is written under it, where that differs from the item's text.
        by_model: whether its text depends on the model, and is stored with the scores.
    """

    name: str
    summary: str
    write: Writer
    every_candidate: bool = False
    kind: Kind = "own"
    baseline: str = "pre"
    gold: bool = False
    action: Callable[[str, Context], str | None] | None = None
    by_model: bool = False

    def candidates(self, item: Item, ctx: Context) -> dict[str, str]:
        """The actions that are scored, by name, as they are written under this condition."""
        kept = {"failed", "gold"} if self.gold else {"failed"}
        named = {
            name: text
            for name, text in item.candidates.items()
            if self.every_candidate or name in kept
        }
        if self.action is None:
            return named
        written = {name: self.action(text, ctx) for name, text in named.items()}
        return {name: text for name, text in written.items() if text is not None}


CONDITIONS: dict[str, Condition] = {}


def condition(name: str, summary: str, **options: Any) -> Callable[[Writer], Writer]:
    """Register the decorated function as the condition `name`; `options` are `Condition`'s."""

    def register(write: Writer) -> Writer:
        CONDITIONS[name] = Condition(name, summary, write, **options)
        return write

    return register
