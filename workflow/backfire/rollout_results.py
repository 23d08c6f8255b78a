"""From step tables on disk to outcomes: reading them, and what is counted in them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pandas as pd

from backfire.estimates import Statistics
from backfire.harnesses import GREEDY, REFERENCE
from backfire.rollout_metrics import (
    METRICS,
    OUTCOME_SCHEMA,
    branch_metrics,
    estimate_rollouts,
    marked,
    per_rollout,
)
from backfire.storage import read_tables

KEYS = ["harness", "decoding", "task_id"]


def read_steps(paths: Iterable[str | Path]) -> pd.DataFrame:
    """Step tables with `harness` and `decoding`, which their paths end with."""
    frames = []
    for path in map(Path, paths):
        frame = read_tables([path]).to_pandas()
        frames.append(frame.assign(harness=path.parent.name, decoding=path.stem))
    together: pd.DataFrame = pd.concat(frames, ignore_index=True)
    return together


def first_failures(steps: pd.DataFrame) -> pd.DataFrame:
    """`task_id action canonical` of the first failure of each greedy rollout."""
    chosen = (steps["harness"] == REFERENCE) & (steps["decoding"] == GREEDY) & ~steps["ok"]
    failed = steps[chosen].sort_values(["task_id", "step"]).drop_duplicates("task_id")
    found: pd.DataFrame = failed[["task_id", "action", "canonical"]]
    return found


def outcomes(
    rollouts: pd.DataFrame,
    branches: pd.DataFrame,
    attempts: int,
    model: str,
    environment: str,
    statistics: Statistics,
) -> pd.DataFrame:
    """Rows of `OUTCOME_SCHEMA` of the rollouts and of the branch study of a model.

    Args:
        rollouts, branches: what `read_steps` gives.
        attempts: the most attempts of a branch.
    """
    names = {"model": model, "environment": environment}
    whole = per_rollout(marked(rollouts, KEYS), KEYS)
    frames = [estimate_rollouts(whole, METRICS, statistics, {**names, "study": "rollouts"})]
    if len(branches):
        marks = marked(branches, KEYS, first_failures(rollouts))
        parts = per_rollout(marks, KEYS, attempts)
        metrics = branch_metrics(attempts)
        frames.append(estimate_rollouts(parts, metrics, statistics, {**names, "study": "branches"}))
    return pd.concat(frames, ignore_index=True)[list(OUTCOME_SCHEMA.names)]


def repeated_after(rollouts: pd.DataFrame) -> dict[str, float]:
    """By own failure (`task.decoding`), whether `verbatim` repeated it in the next turn."""
    found: dict[str, float] = {}
    own = rollouts[rollouts["harness"] == REFERENCE].sort_values("step")
    for (task, decoding), steps in own.groupby(["task_id", "decoding"], sort=False):
        failed = (~steps["ok"]).to_numpy(bool)
        if failed.any() and failed.argmax() + 1 < len(steps):
            first = int(failed.argmax())
            same = steps["action"].iloc[first + 1] == steps["action"].iloc[first]
            found[f"{task}.{decoding}"] = float(same)
    return found
