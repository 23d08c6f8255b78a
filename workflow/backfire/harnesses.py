"""Harnesses: how what happened is written into the transcript that the model sees next.

A harness names the condition whose writing a failed turn gets, the same that the probe measures.
To add one, add its line to `HARNESSES` and name it in the config.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from backfire.conditions import CONDITIONS, Context, Message, before, instructed, turns
from backfire.items import Item, Turn
from backfire.play import Outcome

REFERENCE = "verbatim"
"""The harness that the others are compared with."""

GREEDY = "greedy"
"""The decoding that takes the best token; the samples beside it are `seed1`, `seed2`, ..."""


@dataclass(frozen=True)
class Harness:
    """A way to run an agent.

    Attributes:
        record: the condition that writes a failed turn.
        instruct: whether the system prompt asks the model not to repeat a failed attempt.
        ban: whether a turn may not end as an action that has failed in this rollout.
    """

    name: str
    record: str
    instruct: bool = False
    ban: bool = False

    def opening(self, messages: Sequence[Message]) -> list[Message]:
        """The transcript before anything has happened."""
        return instructed(list(messages)) or [] if self.instruct else list(messages)

    def failure(self, action: str, outcome: Outcome, ctx: Context) -> list[Message]:
        """What a failed turn leaves in the transcript.

        Raises:
            ValueError: the condition needs more than a rollout has, or rewrites what came before.
        """
        item = Item(
            item_id="",
            task_id="",
            system="",
            goal="",
            history=(),
            failed_action=action,
            observations={**outcome.renderings, "fail": outcome.observation},
            tool=outcome.tool,
            error_family=outcome.error_family,
            error=outcome.error,
        )
        written = CONDITIONS[self.record].write(item, ctx)
        start = before(item)
        if written is None or written[: len(start)] != start:
            raise ValueError(f"condition {self.record} cannot record a failure in a rollout")
        return written[len(start) :]

    def success(self, action: str, outcome: Outcome) -> list[Message]:
        """What any other turn leaves in the transcript."""
        return turns([Turn(action, outcome.observation)])


HARNESSES: dict[str, Harness] = {
    harness.name: harness
    for harness in (
        Harness(REFERENCE, "fail"),
        Harness("verbatim+instruct", "fail", instruct=True),
        Harness("abstract", "abstract"),
        Harness("drop", "pre"),
        Harness("verbatim+ban", "fail", ban=True),
        Harness("abstract+ban", "abstract", ban=True),
    )
}
