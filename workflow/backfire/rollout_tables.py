"""The tables of rollouts, and the page of trajectories."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd

from backfire.harnesses import GREEDY, REFERENCE
from backfire.measures import find
from backfire.own_comparison import Difference
from backfire.rollout_metrics import METRICS, branch_metrics, marked
from backfire.rollout_results import KEYS
from backfire.tabular import Entry, Table, markdown, number

UNITS = {name: "proportion" if metric.proportion else "count" for name, metric in METRICS.items()}

FORMULAS = {
    name: metric.formula
    for attempts in range(1, 20)
    for name, metric in (METRICS | branch_metrics(attempts)).items()
}

TABLE_COLUMNS = {
    "table8": ("success", "loop", "exact_repeat_rate", "canonical_repeat_rate",
               "repeats_per_rollout", "repeats_per_opportunity", "without_failure"),
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
    notes = [f"{name}: {FORMULAS[name]}." for name in metrics if name in FORMULAS]
    caption = f"{title}: means over rollouts with intervals of the cluster bootstrap over tasks."
    return Table(
        stem, caption, ("model", "decoding", "harness", *heads), tuple(printed), own, tuple(notes)
    )


def _entry(cell: Mapping[Any, Any] | None, metric: str, contrast: bool) -> Entry:
    return printed(cell, UNITS.get(metric, "proportion"), signed=contrast)


def printed(cell: Mapping[Any, Any] | None, unit: str, signed: bool) -> Entry:
    """A mean with its interval and n; bold where a signed one's interval excludes zero.

    Args:
        cell: has `mean`, `ci_low`, `ci_high` and `n`.
    """
    if cell is None or not cell["n"]:
        return Entry("—")
    mean, low, high = (float(_number(cell[key])) for key in ("mean", "ci_low", "ci_high"))
    between = "[no interval]"
    if not math.isnan(low):
        between = f"[{_shown(low, unit)}, {_shown(high, unit)}]"
    return Entry(
        _shown(mean, unit), mean, f"{between} n={cell['n']}", signed and (low > 0 or high < 0)
    )


def _number(value: float | None) -> float:
    return math.nan if value is None else value


def _shown(value: float, unit: str) -> str:
    return f"{value:.1f}".replace("-", "−") if unit == "count" else number(value, unit)


def own_failures(frame: pd.DataFrame, differences: Mapping[tuple[str, str], Difference]) -> Table:
    """What the record does to calls that a model made itself, beside perturbed ones.

    Args:
        frame: rows of `own_comparison.compare` with `model` and `environment`.
        differences: by (model, environment) as in `frame`.
    """
    measures = tuple(dict.fromkeys(frame["measure"]))
    rows = []
    for names, cells in frame.groupby(["model", "environment", "failures"], sort=False):
        by_measure = cells.set_index("measure").to_dict("index")
        entries = [
            printed(by_measure.get(name), find(name).unit, find(name).signed) for name in measures
        ]
        rows.append((*(Entry(str(name)) for name in names), *entries))
    caption = (
        "Failures that models made themselves, the first of each rollout, beside perturbed items: "
        "means with intervals of the cluster bootstrap over tasks."
    )
    notes = [
        f"{model} on {environment}, G of own failures less perturbed ones at the same "
        f"log P(a | pre): {_said(one)}"
        for (model, environment), one in differences.items()
    ]
    heads = ("model", "environment", "failures", *(name.replace("_", " ") for name in measures))
    return Table("own_failures", caption, heads, tuple(rows), frame, tuple(notes))


def _said(one: Difference) -> str:
    counts = f"{one.n_own} own and {one.n_perturbed} perturbed"
    if math.isnan(one.value):
        return f"{one.status} ({counts})."
    value, low, high = (number(x, "nats") for x in (one.value, one.low, one.high))
    ends = " to ".join(number(end, "nats") for end in one.ends)
    return f"{value} nats [{low}, {high}], {counts} with baselines from {ends}."


def families(frame: pd.DataFrame, slopes: pd.DataFrame) -> Table:
    """Own failures repeated in the next turn beside G of perturbed items of other tasks.

    Args:
        frame: rows of `own_comparison.by_family` with `model` and `environment`.
        slopes: rows of `own_comparison.prediction_slopes` with the same.
    """
    rows = tuple(
        (
            Entry(row["model"]),
            Entry(row["environment"]),
            Entry(row["error_family"]),
            *(
                printed(
                    {key: row[f"{name}_{key}"] for key in ("mean", "ci_low", "ci_high", "n")},
                    unit,
                    signed,
                )
                for name, unit, signed in (("repeat", "proportion", False), ("G", "nats", True))
            ),
        )
        for row in frame.to_dict("records")
    )
    caption = (
        "Own failures repeated in the next turn under verbatim, beside the mean G (nats) of "
        "perturbed items of other tasks, by error family, with intervals of the cluster bootstrap "
        "over tasks."
    )
    notes = [
        f"{row['model']} on {row['environment']}, repetition on {row['predictor']} of the family's "
        f"perturbed items in other tasks: {_slope(row)}"
        for row in slopes.to_dict("records")
    ]
    heads = ("model", "environment", "error family", "repeated", "G of perturbed items")
    return Table("rollout_families", caption, heads, rows, frame, tuple(notes))


def by_model(compared: pd.DataFrame, outcomes: pd.DataFrame, labels: Mapping[str, str]) -> Table:
    """G in the probe beside how often a first failure is repeated, one row a model.

    Args:
        compared: rows of `own_comparison.compare` with `model` and `environment`.
        outcomes: rows of `rollout_metrics.OUTCOME_SCHEMA`.
    """
    gains = compared[(compared["failures"] == "perturbed") & (compared["measure"] == "G")]
    repeats = outcomes[
        (outcomes["study"] == "branches")
        & (outcomes["harness"] == REFERENCE)
        & (outcomes["metric"] == "repeat")
        & ~outcomes["contrast"]
    ].assign(measure=lambda rows: "repeat, " + rows["decoding"])
    columns = ["model", "environment", "measure", "mean", "ci_low", "ci_high", "n", "n_clusters",
               "status"]  # fmt: skip
    frame = pd.concat([gains, repeats], ignore_index=True)[columns]
    heads = tuple(dict.fromkeys(frame["measure"]))
    rows = []
    for (model, environment), cells in frame.groupby(["model", "environment"], sort=False):
        found = cells.set_index("measure").to_dict("index")
        entries = [
            printed(found.get(name), "nats" if name == "G" else "proportion", signed=name == "G")
            for name in heads
        ]
        rows.append((Entry(labels[str(model)]), Entry(str(environment)), *entries))
    caption = (
        "G of the probe beside how often the action that failed first is written again in the next "
        "turn under verbatim, by model."
    )
    return Table("rollout_models", caption, ("model", "environment", *heads), tuple(rows), frame)


def _slope(row: Mapping[Any, Any]) -> str:
    counts = f"{row['n']} failures in {row['n_families']} families"
    if row["status"] != "ok":
        return f"{row['status']} ({counts})."
    slope, low, high = (f"{row[key]:.3f}".replace("-", "−") for key in ("slope", "t_low", "t_high"))
    return f"slope {slope} [{low}, {high}], {counts}."


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
    ended = f" ({row['stop']})" if pd.notna(row["stop"]) else ""
    return Entry(f"{mark}{shown}{ended}")
