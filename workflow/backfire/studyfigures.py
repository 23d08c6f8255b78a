"""The figures across models and across studies: scaling, and this study beside the published."""

from __future__ import annotations

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullFormatter, NullLocator, StrMethodFormatter

from backfire.cells import Cell, Study
from backfire.figures import legend, nothing, panels, reach
from backfire.replication import unit_of
from backfire.scaling import POOLED, Families, Sizes, millions
from backfire.style import INK, PARTS, SOFT, Mark, series_mark


def scaling(
    estimates: pd.DataFrame, lines: pd.DataFrame, sizes: Sizes, families: Families
) -> Figure:
    """G against the number of parameters, and below it the terms that G is made of.

    A column per environment with an axis of its own, in nats; in the last one the environments
    compare: G per token above, the share of the form below. A dashed line is the fit over all
    models, drawn over their sizes and no further.

    Args:
        lines: what `scaling.fits` returns.
    """
    study = Study(estimates)
    environments = study.environments()
    if len(set(sizes.values())) < 2:
        return nothing("A trend needs models of two sizes.")
    names = list(dict.fromkeys(families.values()))
    marks = {name: series_mark(name, at) for at, name in enumerate(names)}
    with panels(2, len(environments) + 1, 2.9 * (len(environments) + 1), 5.2) as (figure, axes):
        for column, environment in enumerate(environments):
            above, below = axes[:, column]
            above.set_title(environment)
            above.set_ylabel("G, nats" if column == 0 else "")
            below.set_ylabel("nats" if column == 0 else "")
            for model, size in sizes.items():
                _point(above, size, study.get(model, environment, "G"), marks[families[model]])
                for part in ("copy", "sem"):
                    _point(below, size, study.get(model, environment, part), PARTS[part])
            _line(above, lines, environment, "G")
            _line(below, lines, environment, "copy")
            _line(below, lines, environment, "sem")
        for ax, measure, title in (
            (axes[0, -1], "G_per_token", "G per token, nats"),
            (axes[1, -1], "form_share", "form share"),
        ):
            ax.set_title(title)
            for at, environment in enumerate(environments):
                mark = series_mark(environment, at + len(names))
                for model, size in sizes.items():
                    _point(ax, size, study.get(model, environment, measure), mark)
                _line(ax, lines, environment, measure)
        for ax in axes.flat:
            _sizes(ax, sizes)
            ax.axhline(0, color=INK, linewidth=0.9, zorder=2)
            sns.despine(ax=ax)
        for ax in axes[1]:
            ax.set_xlabel("parameters")
        legend(figure, axes.flat, columns=4)
    return figure


def _point(ax: Axes, size: float, cell: Cell | None, mark: Mark) -> None:
    if cell is None:
        return
    spread = None
    if cell.bounded:
        spread = [[max(0, cell.mean - cell.low)], [max(0, cell.high - cell.mean)]]
    ax.errorbar(
        [size],
        [cell.mean],
        yerr=spread,
        fmt=mark.marker,
        color=mark.colour,
        ecolor=INK,
        elinewidth=0.9,
        capsize=2,
        markersize=5,
        label=mark.label,
        zorder=4,
    )


def _line(ax: Axes, lines: pd.DataFrame, environment: str, measure: str) -> None:
    chosen = lines[
        (lines["family"] == POOLED)
        & (lines["environment"] == environment)
        & (lines["measure"] == measure)
        & (lines["models"] > 2)
    ]
    for fit in chosen.to_dict("records"):
        ends = [fit["smallest"], fit["largest"]]
        ax.plot(ends, [fit["at_smallest"], fit["at_largest"]], "--", color=SOFT, lw=1, zorder=1)


def _sizes(ax: Axes, sizes: Sizes) -> None:
    """A logarithmic axis of parameters with a tick for each size."""
    ax.set_xscale("log")
    ticks = sorted(set(sizes.values()))
    kept = [ticks[0]]
    for tick in ticks[1:]:
        if tick > 1.6 * kept[-1]:  # closer ones would print over each other
            kept.append(tick)
    ax.xaxis.set_major_locator(FixedLocator(kept))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.set_xticklabels([millions(tick) for tick in kept])
    ax.set_xlim(ticks[0] / 1.3, ticks[-1] * 1.3)


LINEAR = 5.0
"""Up to so many nats the axes are linear, beyond they are logarithmic."""

SIGNS = {
    "same": Mark("same sign", "#0072B2", "o"),
    "unclear": Mark("sign unclear here", "#E69F00", "s"),
    "opposite": Mark("opposite sign", "#D55E00", "X"),
    "": Mark("published sign says nothing", SOFT, "D"),
}


def beside_published(comparison: pd.DataFrame) -> Figure:
    """This study's estimates against the published ones, both with intervals; a panel per unit.

    On the line the two agree.

    Args:
        comparison: what `replication.compare` returns.
    """
    if comparison.empty:
        return nothing("No published value to compare with.")
    unit = comparison["measure"].map(unit_of)
    shared = unit.replace(
        ["probability", "proportion", "share", "fraction"], "probability or share"
    )
    units = list(dict.fromkeys(shared))
    with panels(1, len(units), 3.3 * len(units), 3.7) as (figure, axes):
        for ax, name in zip(axes[0], units, strict=True):
            rows = comparison[shared == name]
            _identity(ax, rows)
            if name == "nats":  # differences of a few nats lie beside gains of many
                for axis, scale in ((ax.xaxis, ax.set_xscale), (ax.yaxis, ax.set_yscale)):
                    scale("symlog", linthresh=LINEAR)
                    axis.set_major_locator(FixedLocator([-100, -10, 0, 10, 100]))
                    axis.set_major_formatter(StrMethodFormatter("{x:.0f}"))
            for sign, mark in SIGNS.items():
                own = rows[rows["sign"] == sign]
                if len(own):
                    _crosses(ax, own, mark)
            ax.set_title(f"nats, logarithmic beyond ±{LINEAR:g}" if name == "nats" else name)
            ax.set_xlabel("published")
            sns.despine(ax=ax)
        axes[0, 0].set_ylabel("this study")
        legend(figure, axes.flat, columns=4)
    return figure


def _identity(ax: Axes, rows: pd.DataFrame) -> None:
    columns = [f"{who}{end}" for who in ("ours", "theirs") for end in ("", "_low", "_high")]
    values = rows[columns].to_numpy("float64")
    low, high = np.nanmin(values), np.nanmax(values)
    margin = 0.05 * (high - low) or 1.0
    ends = (low - margin, high + margin)
    ax.plot(ends, ends, color=SOFT, lw=1, zorder=1)
    ax.set(xlim=ends, ylim=ends, aspect="equal")


def _crosses(ax: Axes, rows: pd.DataFrame, mark: Mark) -> None:
    ends = ("", "_low", "_high")
    ax.errorbar(
        rows["theirs"],
        rows["ours"],
        xerr=reach(*(rows[f"theirs{end}"] for end in ends)),
        yerr=reach(*(rows[f"ours{end}"] for end in ends)),
        fmt=mark.marker,
        color=mark.colour,
        elinewidth=0.8,
        capsize=0,
        markersize=4.5,
        label=mark.label,
        zorder=3,
    )
