"""The failures that a model made itself, as items for the probe's own conditions.

The first failure of a rollout is its item: before it no harness has written anything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pandas as pd

from backfire.items import Item
from backfire.play import Playground
from backfire.rollouts import Start, after_first_failure

OPERATOR = "own"
"""Stands where a perturbed item names its operator."""

CONDITIONS = ("pre", "fail", "succ", "neut", "abstract")


def own_items(
    ground: Playground, starts: Sequence[Start], steps: Mapping[str, pd.DataFrame]
) -> list[Item]:
    """The first failures of rollouts, each distinct one once.

    Args:
        steps: by decoding, rows of `rollouts.STEP_SCHEMA` of rollouts from `starts`.
    """
    items: dict[tuple[object, ...], Item] = {}
    for decoding, rows in steps.items():
        for branch in after_first_failure(ground, starts, rows):
            assert branch.failure is not None
            action, outcome = branch.failure
            begun = next(one for one in starts if one.task is branch.task)
            own = branch.context.history[len(begun.context.history) :]
            gold = ground.reference(branch.task, [turn.action for turn in own])
            item = replace(
                branch.context,
                item_id=f"{branch.task.task_id}.{decoding}",
                step=len(own) + 1,
                operator=OPERATOR,
                failed_action=action,
                gold_action=None if gold == action else gold,
                observations={**outcome.renderings, "fail": outcome.observation},
                tool=outcome.tool,
                error_family=outcome.error_family,
                error=outcome.error,
            )
            # An empty turn is an action that no score can be given to.
            if action:
                items.setdefault((item.task_id, item.history, action), item)
    return list(items.values())
