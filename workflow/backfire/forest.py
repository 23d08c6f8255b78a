"""The forest plot: G under every way to write the record (the paper's Figure 3)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from backfire.cells import Cell, Study
from backfire.conditions import CONDITIONS, Kind
from backfire.figures import Labels, dot, legend, nothing, panels, whisker
from backfire.style import INK, SOFT, Mark, series_mark

GROUPS: dict[Kind, str] = {
    "reference": "reference conditions",
    "message": "the message changes",
    "form": "the call's form changes",
    "format": "another notation",
    "own": "the user's own",
    "control": "controls",
}
"""Kinds of conditions in the order of the plot, and their headings."""


class Row(NamedTuple):
    """A line of the plot: a condition with the measure that is drawn, or a heading."""

    label: str
    measure: str | None


def rows(study: Study) -> list[Row]:
    """The lines that the study has something for, group by group."""
    known = {
        measure
        for model in study.models
        for environment in study.environments(model)
        for measure in study.measures(model, environment)
    }
    found: list[Row] = []
    for kind, heading in GROUPS.items():
        lines = [
            Row(name, measure)
            for name, condition in CONDITIONS.items()
            if condition.kind == kind
            and (measure := "G" if name == "fail" else f"G_{name}") in known
        ]
        if lines:
            found += [Row(heading, None), *lines]
    return found


def forest(estimates: pd.DataFrame, labels: Labels) -> Figure:
    """G under each condition with its interval; a panel per environment, a mark per model.

    Left of zero the record makes the failed call likelier. The dotted line is G of the
    standard record, of a single model.
    """
    study = Study(estimates)
    models = [model for model in labels if study.environments(model)]
    environments = study.environments()
    lines = rows(study)
    if not lines or not models:
        return nothing("No condition has a gain to show.")
    width = 2.0 + 3.4 * len(environments)
    height = 1.0 + 0.21 * len(lines) + 0.1 * len(models)
    with panels(1, len(environments), width, height, sharey=True) as (figure, axes):
        for ax, environment in zip(axes[0], environments, strict=True):
            for at, model in enumerate(models):
                offset = (at - (len(models) - 1) / 2) * 0.7 / len(models)
                mark = series_mark(labels[model], at)
                for y, line in enumerate(lines):
                    cell = line.measure and study.get(model, environment, line.measure)
                    if cell:
                        _draw(ax, cell, y + offset, mark)
            if len(models) == 1:
                standard = study.get(models[0], environment, "G")
                if standard is not None:
                    ax.axvline(standard.mean, color=SOFT, linewidth=0.9, linestyle=":", zorder=2)
            ax.axvline(0, color=INK, linewidth=0.9, zorder=2)
            ax.set(title=environment, xlabel="G, nats")
            ax.grid(axis="y", visible=False)
            sns.despine(ax=ax, left=True)
        first = axes[0, 0]  # the panels share its axis, and it alone has labels
        first.set_yticks(np.arange(len(lines)), [line.label for line in lines])
        first.set_ylim(len(lines) - 0.4, -0.6)
        for tick, line in zip(first.get_yticklabels(), lines, strict=True):
            if line.measure is None:
                tick.set_fontweight("bold")
        if len(models) > 1:
            legend(figure, axes.flat)
    return figure


def _draw(ax: Axes, cell: Cell, y: float, mark: Mark) -> None:
    whisker(ax, cell.low, cell.high, y)
    dot(ax, cell.mean, y, mark, size=5.5)
