"""The figures of rollouts; as in `figures.py`, data frame in, figure out."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from backfire.figures import Labels, legend, nothing, panels, reach, two_lines
from backfire.own_comparison import Difference, baselines
from backfire.style import INK, Mark, series_mark

Case = tuple[str, str]
"""A model and an environment."""

SHOWN = {
    "success": "success",
    "loop": "ended in a loop",
    "exact_repeat_rate": "exact repeats / failed",
}


def by_harness(outcomes: pd.DataFrame, labels: Labels) -> Figure:
    """Success, loops and exact repeats by harness, a row per model, environment and decoding.

    Args:
        outcomes: rows of `rollout_metrics.OUTCOME_SCHEMA`.
    """
    rows = outcomes[(outcomes["study"] == "rollouts") & ~outcomes["contrast"]]
    cases = list(rows.groupby(["model", "environment", "decoding"], sort=False))
    if not cases:
        return nothing("No rollouts.")
    with panels(len(cases), len(SHOWN), 7.4, 0.6 + 2.2 * len(cases), sharey="row") as (
        figure,
        axes,
    ):
        for line, ((model, environment, decoding), own) in zip(axes, cases, strict=True):
            for ax, (metric, title) in zip(line, SHOWN.items(), strict=True):
                _points(ax, own[own["metric"] == metric])
                ax.set_title(title)
            name = two_lines(labels[str(model)])
            line[0].set_ylabel(f"{name}\n{environment}, {decoding}")
        _ = figure
    return figure


def _points(ax: Axes, rows: pd.DataFrame) -> None:
    harnesses = list(dict.fromkeys(rows["harness"]))
    low = (rows["mean"] - rows["ci_low"]).fillna(0).clip(lower=0)
    high = (rows["ci_high"] - rows["mean"]).fillna(0).clip(lower=0)
    places = [harnesses.index(name) for name in rows["harness"]]
    ax.errorbar(rows["mean"], places, xerr=[low, high], fmt="o", color=INK, capsize=2, lw=1.1)
    ax.set_yticks(range(len(harnesses)), harnesses)
    ax.set_ylim(len(harnesses) - 0.5, -0.5)
    ax.set_xlim(-0.03, 1.03)
    sns.despine(ax=ax)


def retry_curves(outcomes: pd.DataFrame, labels: Labels) -> Figure:
    """P(success within K more attempts) after the same first failure, by harness."""
    branches = outcomes[(outcomes["study"] == "branches") & ~outcomes["contrast"]]
    rows = branches[branches["metric"].str.startswith("success_within_")]
    cases = list(rows.groupby(["model", "environment"], sort=False))
    if not cases:
        return nothing("No rollout failed: no state to branch from.")
    kinds = list(dict.fromkeys(rows["decoding"]))
    size = (0.8 + 3.2 * len(kinds), 1.0 + 2.6 * len(cases))
    with panels(len(cases), len(kinds), *size, sharey=True) as (figure, axes):
        for line, ((model, environment), own) in zip(axes, cases, strict=True):
            for ax, kind in zip(line, kinds, strict=True):
                _curves(ax, own[own["decoding"] == kind])
                ax.set_title(f"{two_lines(labels[str(model)])}\n{environment}, {kind}")
        legend(figure, axes.flat, columns=3)
    return figure


def _curves(ax: Axes, rows: pd.DataFrame) -> None:
    harnesses = list(dict.fromkeys(rows["harness"]))
    for number, harness in enumerate(harnesses):
        own = rows[rows["harness"] == harness]
        attempts = own["metric"].str.rpartition("_")[2].astype(int)
        shift = (number - (len(harnesses) - 1) / 2) * 0.06
        mark = series_mark(harness, number)
        ax.errorbar(
            attempts + shift,
            own["mean"],
            yerr=reach(own["mean"], own["ci_low"], own["ci_high"]),
            color=mark.colour,
            marker=mark.marker,
            markersize=4.5,
            lw=1.1,
            capsize=2,
            label=mark.label,
        )
    ax.set_xticks(sorted(set(rows["metric"].str.rpartition("_")[2].astype(int))))
    ax.set(xlabel="more attempts", ylabel="P(success)")
    ax.set_ylim(bottom=-0.02)
    sns.despine(ax=ax)


KINDS = {
    "perturbed": Mark("perturbed items", "#56B4E9", "o"),
    "own": Mark("own failures", "#D55E00", "D"),
}


def own_and_perturbed(
    own: Mapping[Case, pd.DataFrame],
    perturbed: Mapping[Case, pd.DataFrame],
    differences: Mapping[Case, Difference],
    families: pd.DataFrame,
    labels: Labels,
) -> Figure:
    """G against the baseline, of what the model really did and of perturbed items; and whether
    the latter predict what rollouts repeat, by error family.

    Args:
        own, perturbed: by (model, environment), rows of `measures.MEASURE_SCHEMA`.
        differences: the comparison at one baseline.
        families: rows of `own_comparison.by_family` with `model` and `environment`.
    """
    cases = [case for case, rows in own.items() if len(rows)]
    if not cases:
        return nothing("No model failed by itself.")
    with panels(len(cases), 2, 8.6, 0.8 + 3.2 * len(cases)) as (figure, axes):
        for (left, right), case in zip(axes, cases, strict=True):
            model, environment = case
            for kind, frames in (("perturbed", perturbed), ("own", own)):
                if case in frames and len(frames[case]):
                    _cloud(left, frames[case], kind, differences.get(case))
            left.axhline(0, color=INK, linewidth=0.9)
            left.set(xlabel="log P(failed call | pre), nats", ylabel="G, nats (< 0: backfires)")
            left.set_title(f"{two_lines(labels[model])}\n{environment}")
            if len(families):
                rows = families[
                    (families["model"] == model) & (families["environment"] == environment)
                ]
                _families(right, rows)
            right.set(xlabel="G of perturbed items of the family, nats", ylim=(-0.05, 1.05))
            right.set_ylabel("own failures repeated at once")
            right.set_title("by error family")
            for ax in (left, right):
                sns.despine(ax=ax)
        legend(figure, axes.flat, columns=2)
    return figure


def _cloud(ax: Axes, measures: pd.DataFrame, kind: str, difference: Difference | None) -> None:
    points, mark = baselines(measures), KINDS[kind]
    ax.plot(points["logprob_pre"], points["G"], mark.marker, color=mark.colour, markersize=4.5,
            markeredgecolor=INK, markeredgewidth=0.4,
            label=f"{mark.label} (n={len(points)})")  # fmt: skip
    if difference is not None and kind in difference.lines:
        ax.plot(difference.ends, difference.lines[kind], color=INK, linewidth=2.6)
        ax.plot(difference.ends, difference.lines[kind], color=mark.colour, linewidth=1.6)


def _families(ax: Axes, rows: pd.DataFrame) -> None:
    for at, row in enumerate(rows.to_dict("records")):
        x, y = row["G_mean"], row["repeat_mean"]
        mark = series_mark(row["error_family"].replace("_", " "), at)
        ax.errorbar(
            x,
            y,
            xerr=_arms(x, row["G_ci_low"], row["G_ci_high"]),
            yerr=_arms(y, row["repeat_ci_low"], row["repeat_ci_high"]),
            fmt=mark.marker,
            color=mark.colour,
            markersize=5,
            capsize=2,
            lw=1.0,
            label=f"{mark.label} (n={row['repeat_n']})",
        )


def _arms(mean: float, low: float | None, high: float | None) -> list[list[float]]:
    """The two arms of an interval; none where there is none."""
    if low is None or high is None or not np.isfinite([low, high]).all():
        return [[0.0], [0.0]]
    return [[max(mean - low, 0.0)], [max(high - mean, 0.0)]]
