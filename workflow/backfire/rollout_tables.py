"""The tables of rollouts, and the page of trajectories."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd

from backfire.harnesses import GREEDY, REFERENCE
from backfire.rollout_metrics import METRICS, marked
from backfire.rollout_results import KEYS
from backfire.tabular import Entry, Table, markdown, number

UNITS = {name: "proportion" if metric.proportion else "count" for name, metric in METRICS.items()}

TABLE_COLUMNS = {
    "table8": ("success", "loop", "exact_repeat_rate", "canonical_repeat_rate",
               "repeats_per_opportunity", "without_failure"),
    "table9": ("generated_tokens", "prompt_tokens", "context_tokens_per_step", "steps"),
    "rollout_faults": ("prose", "cut_off", "false_success", "speaker_turns",
                       "consecutive_repeats"),
}  # fmt: skip

TITLES = {
    "table8": "Rollouts by harness",
    "table9": "What rollouts cost",
    "rollout_faults": "Other failures in rollouts",
    "branches": "One more attempt after the same first failure",
    "table8_contrasts": "Rollouts by harness, less verbatim",
    "branches_contrasts": "After the same first failure, less verbatim",
}


def build(outcomes: pd.DataFrame, environment: str, labels: Mapping[str, str]) -> list[Table]:
    """Every table of rollouts on an environment.

    Args:
        outcomes: rows of `rollout_metrics.OUTCOME_SCHEMA` of all models.
        labels: by model, how it is printed.
    """
    own = outcomes[outcomes["environment"] == environment]
    whole, branches = (own[own["study"] == study] for study in ("rollouts", "branches"))
    found = [
        _table(f"{name}_{environment}", TITLES[name], whole, columns, labels)
        for name, columns in TABLE_COLUMNS.items()
    ]
    columns = TABLE_COLUMNS["table8"]
    title = TITLES["table8_contrasts"]
    found.append(_table(f"table8_contrasts_{environment}", title, whole, columns, labels, True))
    metrics = tuple(dict.fromkeys(branches["metric"]))
    for name, contrast in (("branches", False), ("branches_contrasts", True)):
        stem = f"{name}_{environment}"
        found.append(_table(stem, TITLES[name], branches, metrics, labels, contrast))
    return found


def _table(
    stem: str,
    title: str,
    rows: pd.DataFrame,
    metrics: Iterable[str],
    labels: Mapping[str, str],
    contrast: bool = False,
) -> Table:
    metrics = tuple(metrics)
    own = rows[(rows["contrast"] == contrast) & rows["metric"].isin(metrics)]
    printed = []
    for (model, decoding, harness), cells in own.groupby(
        ["model", "decoding", "harness"], sort=False
    ):
        by_metric = cells.set_index("metric").to_dict("index")
        entries = [_entry(by_metric.get(name), name, contrast) for name in metrics]
        name = labels[str(model)]
        printed.append((Entry(name), Entry(str(decoding)), Entry(str(harness)), *entries))
    heads = tuple(name.replace("_", " ") for name in metrics)
    notes = [f"{name}: {METRICS[name].formula}." for name in metrics if name in METRICS]
    caption = f"{title}: means over rollouts with intervals of the cluster bootstrap over tasks."
    return Table(
        stem, caption, ("model", "decoding", "harness", *heads), tuple(printed), own, tuple(notes)
    )


def _entry(cell: Mapping[Any, Any] | None, metric: str, contrast: bool) -> Entry:
    if cell is None or not cell["n"]:
        return Entry("—")
    mean, low, high = (float(cell[key]) for key in ("mean", "ci_low", "ci_high"))
    unit = UNITS.get(metric, "proportion")
    shown = _shown(mean, unit)
    between = "[no interval]"
    if not math.isnan(low):
        between = f"[{_shown(low, unit)}, {_shown(high, unit)}]"
    return Entry(shown, mean, f"{between} n={cell['n']}", contrast and (low > 0 or high < 0))


def _shown(value: float, unit: str) -> str:
    return number(value, unit) if unit == "proportion" else f"{value:.1f}".replace("-", "−")


RULE = (
    "Of the tasks that some harness did not solve at once, the first three in the order of the "
    "study, under greedy decoding. ✗ marks a failed action, ↻ one that repeats a failed action."
)


def trajectories(steps: pd.DataFrame, tasks: int = 3) -> str:
    """A page of trajectories in Markdown, every harness side by side, chosen by `RULE`."""
    greedy = marked(steps[steps["decoding"] == GREEDY], KEYS)
    first = greedy[greedy["harness"] == REFERENCE]
    failing = [
        str(task) for task, rows in first.groupby("task_id", sort=False) if not rows["ok"].all()
    ]
    ordered = [task for task in dict.fromkeys(steps["task_id"]) if task in failing][:tasks]
    parts = [RULE]
    for task in ordered:
        own = greedy[greedy["task_id"] == task]
        harnesses = list(dict.fromkeys(own["harness"]))
        last = int(own["step"].max())
        rows = []
        for step in range(1, last + 1):
            cells = [own[(own["harness"] == name) & (own["step"] == step)] for name in harnesses]
            rows.append((Entry(str(step)), *(_turn(cell) for cell in cells)))
        caption = f"Task {task}"
        parts.append(markdown(Table("", caption, ("step", *harnesses), tuple(rows), own)))
    return "\n\n".join(parts) + "\n"


def _turn(cell: pd.DataFrame) -> Entry:
    if not len(cell):
        return Entry("")
    row = cell.iloc[0]
    mark = "↻ " if row["exact"] else ("" if row["ok"] else "✗ ")
    action = str(row["action"])
    shown = action if len(action) <= 120 else f"{action[:120]}…"
    ended = f" ({row['stop']})" if row["stop"] else ""
    return Entry(f"{mark}{shown}{ended}")
