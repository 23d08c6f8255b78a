"""When a turn ends, and the ban: as what it may not.

The ban acts on decoded text, so it holds through any tokenisation. A turn may not end, by a stop
or at the length limit, while the action taken out of its text is a banned one. Nothing else is
forbidden: a token that does not end the turn is always allowed, so every text whose action is
not banned stays reachable, the prefixes and extensions of a banned action among them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

Ending = Literal["stop", "complete", "length"]
"""A token that ends the turn, a text that is complete, or no room for more."""


@dataclass(frozen=True)
class Rule:
    """The rule by which a turn is written.

    Attributes:
        decode: from token ids to text.
        stop_ids: the tokens that end a turn and are no part of its text.
        complete: whether a text ends the turn by itself, as a newline after a call does.
        action: the action that is taken out of a text.
        limit: the most tokens of a turn.
        banned: the actions as which it may not end.
    """

    decode: Callable[[Sequence[int]], str]
    stop_ids: frozenset[int]
    complete: Callable[[str], bool]
    action: Callable[[str], str]
    limit: int
    banned: frozenset[str] = frozenset()

    def ending(self, ids: Sequence[int], token: int) -> Ending | None:
        """How the turn ends when `token` follows `ids`, or None if it goes on."""
        return self._end(ids, token)[0]

    def allows(self, ids: Sequence[int], token: int) -> bool:
        """Whether `token` may follow `ids`."""
        if not self.banned:
            return True
        ending, text = self._end(ids, token)
        return ending is None or self.action(text) not in self.banned

    def banning(self, actions: frozenset[str]) -> Rule:
        """The same rule with these actions banned."""
        return replace(self, banned=actions)

    def _end(self, ids: Sequence[int], token: int) -> tuple[Ending | None, str]:
        """How the turn ends, and its text then."""
        if token in self.stop_ids:
            return "stop", self.decode(ids)
        text = self.decode([*ids, token])
        if self.complete(text):
            return "complete", text
        return ("length" if len(ids) + 1 >= self.limit else None), text
