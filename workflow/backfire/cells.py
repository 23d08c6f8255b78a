"""Estimates looked up cell by cell, what an interval says of its sign, and how it is printed."""

from __future__ import annotations

import math
from enum import Enum
from typing import Any, NamedTuple

import pandas as pd

from backfire.measures import find


class Cell(NamedTuple):
    """One row of the estimates; `low` and `high` are NaN where no interval is defined."""

    model: str
    environment: str
    group: str
    measure: str
    mean: float
    low: float
    high: float
    n: int
    clusters: int
    status: str

    @property
    def bounded(self) -> bool:
        return math.isfinite(self.low) and math.isfinite(self.high)


class Study:
    """Estimates by model, environment, measure and group; one without a mean is absent."""

    def __init__(
        self, estimates: pd.DataFrame, margin: float | None = None, confidence: float = 0.95
    ) -> None:
        """
        Args:
            margin: G per token within ± this many nats counts as no effect; None claims none.
            confidence: what the intervals were made for.
        """
        self.margin = margin
        self.confidence = confidence
        self._covered = dict.fromkeys(
            zip(estimates["model"], estimates["environment"], strict=True)
        )
        self._cells: dict[tuple[str, str, str, str], Cell] = {}
        for row in estimates[estimates["mean"].notna()].to_dict("records"):
            cell = Cell(
                row["model"],
                row["environment"],
                row["group"],
                row["measure"],
                float(row["mean"]),
                _number(row["ci_low"]),
                _number(row["ci_high"]),
                int(row["n"]),
                int(row["n_clusters"]),
                row["status"],
            )
            self._cells[cell.model, cell.environment, cell.measure, cell.group] = cell

    def get(self, model: str, environment: str, measure: str, group: str = "all") -> Cell | None:
        return self._cells.get((model, environment, measure, group))

    @property
    def models(self) -> list[str]:
        return list(dict.fromkeys(model for model, _ in self._covered))

    def environments(self, model: str | None = None) -> list[str]:
        """The environments of one model, or of all, those without a single mean included."""
        return list(dict.fromkeys(e for m, e in self._covered if model is None or m == model))

    def measures(self, model: str, environment: str) -> list[str]:
        """The measures over all items."""
        return [
            cell.measure
            for cell in self._cells.values()
            if (cell.model, cell.environment, cell.group) == (model, environment, "all")
        ]

    def by_group(self, measure: str, dimension: str) -> list[tuple[str, Cell]]:
        """The cells of a measure by the values of a dimension, such as `error_family`."""
        prefix = f"{dimension}="
        return [
            (cell.group.removeprefix(prefix), cell)
            for cell in self._cells.values()
            if cell.measure == measure and cell.group.startswith(prefix)
        ]


def _number(value: Any) -> float:
    return math.nan if pd.isna(value) else float(value)


class Reading(Enum):
    """What an interval says about its sign."""

    ABOVE = "above zero"
    BELOW = "below zero"
    NEGLIGIBLE = "inside the equivalence margin"
    UNCLEAR = "no clear effect"
    UNDEFINED = "no interval"


def read(cell: Cell | None, margin: float | None = None) -> Reading:
    """The sign that an interval allows; "nothing" only when it lies within ±`margin`."""
    if cell is None or not cell.bounded:
        return Reading.UNDEFINED
    if margin is not None and -margin < cell.low and cell.high < margin:
        return Reading.NEGLIGIBLE
    if cell.low > 0:
        return Reading.ABOVE
    if cell.high < 0:
        return Reading.BELOW
    return Reading.UNCLEAR


PERCENT = frozenset({"probability", "proportion", "share", "fraction"})
"""Units that are printed in percent."""


def format_value(value: float, measure: str) -> str:
    """Percent for a share or probability, else one or two decimals, with a real minus sign."""
    if not math.isfinite(value):
        return "undefined"
    unit = find(measure).unit
    text = f"{100 * value:.1f} %" if unit in PERCENT else f"{value:.2f}"
    if unit == "tokens":
        text = f"{value:.1f}"
    if unit == "mass":
        text = f"{value:.2g}"
    if unit in PERCENT and 0 < value < 0.0005:
        text = "<0.1 %"
    elif float(text.split()[0]) == 0:
        text = text.removeprefix("-")
    return text.replace("-", "−")


def format_interval(cell: Cell, flip: bool = False) -> str:
    """The interval as "low to high", a one-sided bound, or why there is none.

    `flip` gives the interval of the negative.
    """
    low, high = (-cell.high, -cell.low) if flip else (cell.low, cell.high)
    if not cell.bounded:
        return cell.status
    if "one-sided" in cell.status:
        bound = cell.low if cell.mean == cell.high else cell.high
        side = "at least" if bound == cell.low else "at most"
        return f"{side} {format_value(bound, cell.measure)}"
    return f"{format_value(low, cell.measure)} to {format_value(high, cell.measure)}"
