"""The figures: data frame in, matplotlib figure out. `style.save` writes them.

Estimates come as in `results/estimates`; `labels` maps a model's name to what is printed for
it, which says when its weights are quantised. To add a figure, write a function here, or in
`itemfigures.py` where single items are drawn (`panels` opens the axes in the house style), and
save what it returns.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import numpy.typing as npt
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from seaborn.utils import relative_luminance

from backfire import style
from backfire.cells import Cell, Reading, Study, format_value, read
from backfire.style import INK, PARTS, Mark

Labels = Mapping[str, str]


@contextmanager
def panels(
    rows: int, columns: int, width: float, height: float, **options: Any
) -> Iterator[tuple[Figure, npt.NDArray[Any]]]:
    """A figure of `rows` x `columns` axes in the house style, `width` x `height` inches in all."""
    with style.house():
        figure, axes = plt.subplots(
            rows, columns, figsize=(width, height), squeeze=False, **options
        )
        try:
            yield figure, axes
        finally:
            plt.close(figure)  # leaves pyplot's registry; the figure itself lives on


def nothing(message: str) -> Figure:
    """A figure that says why it is empty."""
    with panels(1, 1, 5.2, 0.8) as (figure, axes):
        axes[0, 0].set_axis_off()
        axes[0, 0].text(0, 0.5, message, va="center", transform=axes[0, 0].transAxes)
    return figure


def two_lines(label: str) -> str:
    """A model's label with its weights on a line of their own."""
    return label.replace(" (", "\n(", 1)


def whisker(ax: Axes, low: float, high: float, y: float) -> None:
    """A horizontal interval with caps; an undefined one is left out."""
    if np.isfinite(low) and np.isfinite(high):
        ax.errorbar(
            [(low + high) / 2],
            [y],
            xerr=[[(high - low) / 2]] * 2,
            fmt="none",
            ecolor=INK,
            elinewidth=1.1,
            capsize=2.5,
            zorder=4,
        )


def reach(means: pd.Series[float], lows: pd.Series[float], highs: pd.Series[float]) -> list[Any]:
    """How far intervals reach below and above their means, for matplotlib; 0 where undefined."""
    return [(means - lows).fillna(0).clip(lower=0), (highs - means).fillna(0).clip(lower=0)]


def dot(ax: Axes, x: float, y: float, mark: Mark, size: float = 7, label: str = "") -> None:
    ax.plot(
        x,
        y,
        mark.marker,
        color=mark.colour,
        markeredgecolor=style.PAPER,
        markeredgewidth=0.7,
        markersize=size,
        linestyle="none",
        label=label or mark.label,
        zorder=5,
    )


def legend(figure: Figure, axes: Iterable[Axes], columns: int = 3) -> None:
    """One legend above all panels, each label once."""
    entries: dict[str, Any] = {}
    for ax in axes:
        for handle, name in zip(*ax.get_legend_handles_labels(), strict=True):
            entries.setdefault(name, handle)
    figure.legend(list(entries.values()), list(entries), loc="outside upper center", ncols=columns)


def decomposition(estimates: pd.DataFrame, labels: Labels) -> Figure:
    """Bars of `copy` and `sem`, the total −G as a dot, with intervals; a panel per environment.

    Right of zero the record makes the failed call likelier.
    """
    study = Study(estimates)
    models = [model for model in labels if study.environments(model)]
    environments = study.environments()
    if not environments:
        return nothing("No item has the terms of the decomposition.")
    width = 1.7 + 3.6 * len(environments)
    height = 1.25 + 0.62 * len(models)
    with panels(1, len(environments), width, height, sharex=True, sharey=True) as (figure, axes):
        for ax, environment in zip(axes[0], environments, strict=True):
            for at, model in enumerate(models):
                for part, offset in (("copy", -0.2), ("sem", 0.2)):
                    cell = study.get(model, environment, part)
                    if cell is not None:
                        _bar(ax, cell, at + offset, PARTS[part])
                total = study.get(model, environment, "G_decomposed")
                if total is not None:
                    whisker(ax, -total.high, -total.low, at)
                    dot(ax, -total.mean, at, PARTS["total"])
            ax.axvline(0, color=INK, linewidth=0.9, zorder=3)
            ax.set_title(environment)
            ax.set_yticks(range(len(models)), [two_lines(labels[model]) for model in models])
            ax.set_ylim(len(models) - 0.45, -0.55)
            ax.set_xlabel("change of log P(failed call), nats")
            ax.grid(axis="y", visible=False)
            sns.despine(ax=ax, left=True)
        legend(figure, axes.flat)
    return figure


def _bar(ax: Axes, cell: Cell, y: float, mark: Mark) -> None:
    ax.barh(
        y,
        cell.mean,
        height=0.36,
        color=mark.colour,
        hatch=mark.hatch,
        edgecolor=INK,
        linewidth=0.6,
        label=mark.label,
        zorder=2,
    )
    whisker(ax, cell.low, cell.high, y)


def per_length(estimates: pd.DataFrame, labels: Labels) -> Figure:
    """G per token and per byte, all environments on one axis; a line per model.

    Per unit of length the environments compare, and by bytes also models of other tokenisers.
    """
    study = Study(estimates)
    models = [model for model in labels if study.environments(model)]
    environments = study.environments()
    if not models:
        return nothing("No item has a gain to show.")
    with panels(1, 2, 8.6, 1.3 + 0.62 * len(models), sharey=True) as (figure, axes):
        for ax, measure in zip(axes[0], ("G_per_token", "G_per_byte"), strict=True):
            for at, environment in enumerate(environments):
                mark = style.series_mark(environment, at)
                shift = (at - (len(environments) - 1) / 2) * 0.5 / len(environments)
                for y, model in enumerate(models):
                    cell = study.get(model, environment, measure)
                    if cell is not None:
                        whisker(ax, cell.low, cell.high, y + shift)
                        dot(ax, cell.mean, y + shift, mark)
            ax.axvline(0, color=INK, linewidth=0.9, zorder=2)
            ax.set_xlabel(f"{measure.replace('_', ' ')}, nats")
            ax.grid(axis="y", visible=False)
            sns.despine(ax=ax, left=True)
        first = axes[0, 0]
        first.set_yticks(range(len(models)), [two_lines(labels[model]) for model in models])
        first.set_ylim(len(models) - 0.45, -0.55)
        legend(figure, axes.flat)
    return figure


def families_statement(study: Study, models: Collection[str]) -> str:
    """Whether the record helps on any error family, in one sentence, from means and intervals."""
    cells = [cell for _, cell in study.by_group("G", "error_family") if cell.model in models]
    if not cells:
        return "No error family has a gain to show."
    total = len(cells)
    positive = sum(cell.mean > 0 for cell in cells)
    clear = sum(read(cell) is Reading.ABOVE for cell in cells)
    negative = sum(read(cell) is Reading.BELOW for cell in cells)
    if positive == 0:
        first = f"None of the {total} cells is positive"
    else:
        first = f"{positive} of {total} cells {'is' if positive == 1 else 'are'} positive, "
        first += f"{clear or 'none'} with an interval above zero"
    return f"{first}; in {negative} of {total} the interval lies below zero."


def family_heatmap(estimates: pd.DataFrame, labels: Labels) -> Figure:
    """G by error family and model, colours diverging about zero, one panel per environment.

    A mean in parentheses has an interval that contains zero or is undefined.
    """
    cells = pd.DataFrame(
        [
            (cell.environment, family.replace("_", " "), cell.model, cell.mean, _note(cell))
            for family, cell in Study(estimates).by_group("G", "error_family")
            if cell.model in labels
        ],
        columns=["environment", "family", "model", "mean", "note"],
    )
    if cells.empty:
        return nothing("No item names an error family.")
    order = list(cells.groupby("family")["mean"].mean().sort_values().index)
    environments = list(dict.fromkeys(cells["environment"]))
    bound = 1.2 * float(cells["mean"].abs().max())
    widest = max(cells.groupby("environment")["model"].nunique())
    width = 2.4 + len(environments) * (1.4 + max(1.8, 1.1 * widest))
    rows = max(cells.groupby("environment")["family"].nunique())
    with panels(1, len(environments), width, 1.6 + 0.32 * rows) as (figure, axes):
        for ax, environment in zip(axes[0], environments, strict=True):
            here = cells[cells["environment"] == environment]
            families = [family for family in order if family in set(here["family"])]
            models = [model for model in labels if model in set(here["model"])]
            wide = here.pivot(index="family", columns="model").reindex(families)
            sns.heatmap(
                wide["mean"][models],
                ax=ax,
                cmap=style.DIVERGING,
                vmin=-bound,
                vmax=bound,
                linewidths=1,
                linecolor=style.PAPER,
                annot=wide["note"][models].fillna(""),
                fmt="",
                annot_kws={"fontsize": 8},
                cbar=ax is axes[0, -1],
                cbar_kws={"label": "G, nats"},
            )
            _tint_notes(ax)
            ax.set(title=environment, xlabel="", ylabel="")
            ax.tick_params(axis="y", rotation=0)
            tilt = {"rotation": 35, "ha": "right", "rotation_mode": "anchor"}
            names = [two_lines(labels[model]) for model in models]
            ax.set_xticklabels(names, **(tilt if len(models) > 1 else {}))
    return figure


def _tint_notes(ax: Axes) -> None:
    """Give each note the tint of better contrast, in colours that a dark page leaves alone."""
    mesh = ax.collections[0]
    values: Any = mesh.get_array()
    colours = np.asarray(mesh.get_facecolor())[~np.ma.getmaskarray(values).ravel()]
    for text, colour in zip(ax.texts, colours, strict=True):
        dark = relative_luminance(colour) < 0.18  # where black and white contrast alike
        text.set_color(style.ON_DARK if dark else style.ON_LIGHT)


def _note(cell: Cell) -> str:
    mean = format_value(cell.mean, cell.measure)
    clear = read(cell) in (Reading.ABOVE, Reading.BELOW)
    return f"{mean if clear else f'({mean})'}  n={cell.n}"
