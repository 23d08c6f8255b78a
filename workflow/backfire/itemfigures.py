"""The figures that show single items and tokens; as in `figures.py`, data frame in, figure out."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
import seaborn as sns
import statsmodels.api as sm
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from scipy import stats

from backfire import style
from backfire.figures import Labels, legend, nothing, panels, two_lines
from backfire.style import INK
from backfire.trace import KINDS


def sign_map(
    measures: Mapping[tuple[str, str], pd.DataFrame],
    deciles: pd.DataFrame,
    labels: Labels,
    confidence: float,
) -> Figure:
    """log P(a | fail) against log P(a | pre), a panel per model and environment.

    Args:
        measures: by (model, environment), rows of `measures.MEASURE_SCHEMA`.
        deciles: rows of `signmap.DECILE_SCHEMA`; drawn at the mean baseline of each.
        confidence: of the band about the regression, which is clustered on tasks.
    """
    models = [model for model in labels if any(model == key[0] for key in measures)]
    environments = list(dict.fromkeys(environment for _, environment in measures))
    size = (0.6 + 3.7 * len(environments), 0.9 + 3.3 * len(models))
    with panels(len(models), len(environments), *size) as (figure, axes):
        for row, model in zip(axes, models, strict=True):
            for ax, environment in zip(row, environments, strict=True):
                rows = measures.get((model, environment))
                if rows is None:
                    ax.set_visible(False)
                    continue
                own = (deciles["model"] == model) & (deciles["environment"] == environment)
                _sign_panel(ax, rows, deciles[own], confidence)
                ax.set_title(f"{two_lines(labels[model])}\n{environment}")
        legend(figure, axes.flat, columns=2)
    return figure


def _sign_panel(ax: Axes, rows: pd.DataFrame, deciles: pd.DataFrame, confidence: float) -> None:
    wide = rows[rows["measure"].isin(["logprob_pre", "logprob_fail"])].pivot(
        index=["item_id", "task_id"], columns="measure", values="value"
    )
    wide = wide.dropna().reset_index()
    before, after = wide["logprob_pre"], wide["logprob_fail"]
    ax.plot(
        before,
        after,
        "o",
        color="#56B4E9",
        markersize=4,
        markeredgecolor=INK,
        markeredgewidth=0.4,
        label="item",
        zorder=2,
    )
    low = min(before.min(), after.min()) * 1.03
    ax.set(xlim=(low, 0), ylim=(low, 0))
    ax.plot([low, 0], [low, 0], "--", color=style.SOFT, linewidth=1, label="no change, G = 0")
    line = _band(before, after, wide["task_id"], confidence)
    if line is not None:
        ax.plot(
            line["x"],
            line["mean"],
            color="#D55E00",
            linewidth=1.6,
            label=f"regression, {100 * confidence:g} % band",
        )
        ax.fill_between(
            line["x"], line["low"], line["high"], color="#D55E00", alpha=0.2, linewidth=0
        )
        _mark_crossing(ax, line, low)
    x, y = deciles["baseline_mean"], deciles["baseline_mean"] - deciles["mean"]
    spread = [deciles["ci_high"] - deciles["mean"], deciles["mean"] - deciles["ci_low"]]
    ax.errorbar(
        x,
        y,
        yerr=spread,
        fmt="D",
        color=INK,
        markersize=4,
        elinewidth=1,
        capsize=2,
        label="tenth of the items",
        zorder=4,
    )
    ax.set_aspect("equal")
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_locator(MaxNLocator(5))
    ax.set(xlabel="log P(failed call | pre), nats", ylabel="log P(failed call | fail), nats")
    sns.despine(ax=ax)


def _band(
    x: pd.Series[float], y: pd.Series[float], cluster: pd.Series[str], confidence: float
) -> pd.DataFrame | None:
    """The line of `y` on `x` and its cluster-robust band, None where no line is defined."""
    codes = pd.factorize(cluster)[0]
    if len(x) < 3 or x.min() == x.max() or codes.max() < 1:
        return None
    fit = sm.OLS(y, sm.add_constant(x)).fit(
        cov_type="cluster", cov_kwds={"groups": codes}, use_t=True
    )
    grid = np.linspace(x.min(), x.max(), 60)
    predicted = fit.get_prediction(sm.add_constant(grid))
    # Its own conf_int would take n - 2 degrees of freedom, not clusters - 1.
    half = stats.t.ppf((1 + confidence) / 2, codes.max()) * predicted.se_mean
    mean = predicted.predicted_mean
    return pd.DataFrame({"x": grid, "mean": mean, "low": mean - half, "high": mean + half})


def _mark_crossing(ax: Axes, line: pd.DataFrame, low: float) -> None:
    """The baseline at which the line says G = 0, where the data reach it."""
    above = line["mean"] - line["x"]
    turns = np.flatnonzero(np.diff(np.sign(above)))
    if len(turns):
        at = turns[0]
        step = above[at] / (above[at] - above[at + 1])
        crossing = line["x"][at] + step * (line["x"][at + 1] - line["x"][at])
        ax.plot(
            crossing,
            crossing,
            "*",
            color="#F0E442",
            markeredgecolor=INK,
            markersize=11,
            label="sign turns",
            zorder=5,
        )


def token_trace(by_position: pd.DataFrame, by_kind: pd.DataFrame, labels: Labels) -> Figure:
    """Gain of each token of the failed call over `pre`, by its place and by its kind.

    Args:
        by_position, by_kind: what `trace.trace` gives, with columns `model` and `environment`.
    """
    cases = [
        (model, environment)
        for model in labels
        for environment in dict.fromkeys(by_position["environment"])
        if ((by_position["model"] == model) & (by_position["environment"] == environment)).any()
    ]
    if not cases:
        return nothing("Too few calls for a mean over their tokens.")
    options = {"width_ratios": [1.35, 1], "sharex": "col"}
    with panels(len(cases), 2, 7.2, 0.7 + 2.6 * len(cases), **options) as (figure, axes):
        for (left, right), (model, environment) in zip(axes, cases, strict=True):
            own = [
                frame[(frame["model"] == model) & (frame["environment"] == environment)]
                for frame in (by_position, by_kind)
            ]
            if left is not axes[0, 0]:
                left.sharey(axes[0, 0])  # the right panels have kinds of their own there
            _by_position(left, own[0])
            _by_kind(right, own[1])
            left.set_title(f"{labels[model]}, {environment}")
        legend(figure, axes[:, 0], columns=2)
    return figure


def _in_order(rows: pd.DataFrame) -> list[str]:
    """The conditions in the house's order, those without a mark of their own last."""
    known = [name for name in style.CONDITIONS if name in set(rows["condition"])]
    return [*known, *sorted(set(rows["condition"]) - set(known))]


def _by_position(ax: Axes, rows: pd.DataFrame) -> None:
    for depth, condition in enumerate(_in_order(rows)):
        mark = style.condition_mark(condition)
        part = rows[rows["condition"] == condition].sort_values("position")
        ax.fill_between(
            part["position"], part["ci_low"], part["ci_high"], color=mark.colour, alpha=0.1, lw=0
        )
        ax.plot(
            part["position"],
            part["mean"],
            linestyle=mark.line,
            linewidth=1.1,
            marker=mark.marker,
            markersize=3,
            color=mark.colour,
            label=mark.label,
            zorder=3 - depth / 10,  # the first on top
        )
    ax.axhline(0, color=INK, linewidth=0.9)
    ax.set(xlabel="token of the call, from 0", ylabel="gain over pre, nats per token")
    sns.despine(ax=ax)


def _by_kind(ax: Axes, rows: pd.DataFrame) -> None:
    kinds = [kind for kind in KINDS if kind in set(rows["kind"])]
    conditions = _in_order(rows)
    for number, condition in enumerate(conditions):
        mark = style.condition_mark(condition)
        part = rows[rows["condition"] == condition].set_index("kind").reindex(kinds)
        shift = (number - (len(conditions) - 1) / 2) * 0.17
        ax.errorbar(
            part["mean"],
            np.arange(len(kinds)) + shift,
            xerr=[part["mean"] - part["ci_low"], part["ci_high"] - part["mean"]],
            fmt=mark.marker,
            color=mark.colour,
            markersize=4.5,
            elinewidth=1.1,
            capsize=2,
        )
    counts = rows.groupby("kind")["n"].max()
    ax.axvline(0, color=INK, linewidth=0.9)
    ax.set_yticks(range(len(kinds)), [f"{kind}\n({counts[kind]} tokens)" for kind in kinds])
    ax.set_ylim(len(kinds) - 0.5, -0.5)
    ax.set_xlabel("gain over pre, nats per token")
    ax.grid(axis="y", visible=False)
    sns.despine(ax=ax, left=True)
