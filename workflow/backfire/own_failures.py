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


def by_family(
    items: Sequence[Item], repeated: Mapping[str, float], perturbed: pd.DataFrame
) -> pd.DataFrame:
    """Repetition of own failures beside the G of perturbed items of other tasks, by error family.

    Args:
        items: own failures.
        repeated: by item, how often the action was repeated right after it, from 0 to 1.
        perturbed: rows of `measures.MEASURE_SCHEMA` of the probe on the same environment.

    Returns:
        `error_family failures repeat_rate perturbed_items G`, the families that both have.
    """
    gains = perturbed[perturbed["measure"] == "G"]
    rows = []
    for family in sorted({item.error_family for item in items if item.error_family}):
        own = [item for item in items if item.error_family == family and item.item_id in repeated]
        tasks = {item.task_id for item in own}
        others = gains[(gains["error_family"] == family) & ~gains["task_id"].isin(tasks)]
        if own and len(others):
            rows.append(
                {
                    "error_family": family,
                    "failures": len(own),
                    "repeat_rate": sum(repeated[item.item_id] for item in own) / len(own),
                    "perturbed_items": len(others),
                    "G": float(others["value"].mean()),
                }
            )
    columns = ["error_family", "failures", "repeat_rate", "perturbed_items", "G"]
    return pd.DataFrame(rows, columns=columns)
