"""The figures of rollouts; as in `figures.py`, data frame in, figure out."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from backfire.figures import Labels, legend, nothing, panels, two_lines
from backfire.style import INK, series_mark

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
            yerr=[
                (own["mean"] - own["ci_low"]).fillna(0).clip(lower=0),
                (own["ci_high"] - own["mean"]).fillna(0).clip(lower=0),
            ],
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


def own_and_perturbed(
    own: Mapping[tuple[str, str], pd.DataFrame],
    perturbed: Mapping[tuple[str, str], pd.DataFrame],
    labels: Labels,
) -> Figure:
    """G against the baseline probability: what the model really did, and the perturbed items.

    Args:
        own, perturbed: by (model, environment), rows of `measures.MEASURE_SCHEMA`.
    """
    cases = [case for case, rows in own.items() if len(rows)]
    if not cases:
        return nothing("No model failed by itself.")
    with panels(len(cases), 1, 5.4, 0.6 + 3.2 * len(cases)) as (figure, axes):
        for ax, (model, environment) in zip(axes[:, 0], cases, strict=True):
            groups = {
                "perturbed items": (perturbed.get((model, environment)), "#56B4E9", "o"),
                "own failures": (own[model, environment], "#D55E00", "D"),
            }
            for name, (rows, colour, marker) in groups.items():
                if rows is not None and len(rows):
                    _cloud(ax, rows, name, colour, marker)
            ax.axhline(0, color=INK, linewidth=0.9)
            ax.set(xlabel="log P(failed call | pre), nats", ylabel="G, nats (< 0: backfires)")
            ax.set_title(f"{two_lines(labels[model])}\n{environment}")
            sns.despine(ax=ax)
        legend(figure, axes.flat, columns=2)
    return figure


def _cloud(ax: Axes, rows: pd.DataFrame, name: str, colour: str, marker: str) -> None:
    wide = rows[rows["measure"].isin(["logprob_pre", "G"])].pivot(
        index="item_id", columns="measure", values="value"
    )
    wide = wide.dropna()
    ax.plot(wide["logprob_pre"], wide["G"], marker, color=colour, markersize=4.5,
            markeredgecolor=INK, markeredgewidth=0.4, label=f"{name} (n={len(wide)})")  # fmt: skip
    if len(wide) > 2 and np.ptp(wide["logprob_pre"]) > 0:
        slope, start = np.polyfit(wide["logprob_pre"], wide["G"], 1)
        ends = np.array([wide["logprob_pre"].min(), wide["logprob_pre"].max()])
        ax.plot(ends, start + slope * ends, color=colour, linewidth=1.5)
