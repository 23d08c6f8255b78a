"""This study's estimates beside the published ones, and what may be said of them.

The published study had other weights and other items, so nothing here replicates a number:
two means are compared as those of independent samples.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from backfire.estimates import ALL
from backfire.harnesses import GREEDY
from backfire.measures import declared
from backfire.rollout_metrics import METRICS

Row = Mapping[Any, Any]
"""One row of a data frame, by column."""

PUBLISHED_FILES = ("probe.csv", "error_families.csv", "variants.csv", "rollouts.csv")
HARNESS = "harness="
ROUNDING = 0.015
"""Three published values of two decimals may miss their identity by this much, in nats."""


def published(folder: Path) -> pd.DataFrame:
    """The published estimates: `table environment model group measure mean ci_low ci_high mixed`.

    `mixed` marks rows whose G, copy and sem break G + copy + sem = 0 by more than rounding:
    their columns were computed from different items.
    """
    probe, families, variants, rollouts = (pd.read_csv(folder / name) for name in PUBLISHED_FILES)
    probe["group"] = ALL
    rollouts["environment"] = "toolshed"
    rollouts["group"] = HARNESS + rollouts["harness"]
    families["group"] = "error_family=" + families["error_family"]
    families["measure"] = "G"
    families = families.rename(columns={"G_mean": "mean"})
    variants["group"] = ALL
    variants["measure"] = "delta_" + variants["condition"]
    variants = variants.rename(columns={"delta_logprob_vs_fail": "mean"})
    columns = ["table", "environment", "model", "group", "measure", "mean", "ci_low", "ci_high"]
    rows = pd.concat([probe, families, variants, rollouts], ignore_index=True)[columns]
    keys = ["table", "environment", "model"]
    terms = rows[rows["measure"].isin(["G", "copy", "sem"]) & (rows["group"] == ALL)]
    sums = terms.groupby(keys)["mean"].agg(["sum", "size"])
    broken = sums.index[(sums["size"] == 3) & (sums["sum"].abs() > ROUNDING)]
    rows["mixed"] = pd.MultiIndex.from_frame(rows[keys]).isin(broken)
    return rows


def of_rollouts(outcomes: pd.DataFrame) -> pd.DataFrame:
    """Greedy rollouts as estimates whose group is the harness, as `published` has them.

    Args:
        outcomes: rows of `rollout_metrics.OUTCOME_SCHEMA`.
    """
    whole = (outcomes["study"] == "rollouts") & (outcomes["decoding"] == GREEDY)
    own = outcomes[whole & ~outcomes["contrast"]]
    return own.assign(group=HARNESS + own["harness"], measure=own["metric"])


def unit_of(measure: str) -> str:
    """The unit of a measure of the probe, or of a metric of rollouts."""
    if measure in METRICS:
        return "proportion" if METRICS[measure].proportion else "count"
    known = declared(measure)
    if known is None:
        raise KeyError(measure)
    return known.unit


def compare(
    estimates: pd.DataFrame,
    theirs: pd.DataFrame,
    published_as: Mapping[str, str],
    kinds: Mapping[str, str],
    margins: Mapping[str, float],
) -> pd.DataFrame:
    """One row for each published cell that this study estimates too.

    `difference` is ours minus theirs. Its interval combines the two intervals by the method
    of variance estimates recovery (Zou and Donner 2008), which keeps their asymmetry and
    takes the samples for independent; it is absent where either has none, or where the
    published one is [0, 0] or [1, 1].

    `sign` is `same`, `opposite` or `unclear` (our interval contains zero), and empty where the
    published sign says nothing: the measure cannot be negative, or its interval contains zero.

    `agreement` is `within` where the interval of the difference lies inside the margin,
    `beyond` where it lies outside, else `undecided`; without an interval the difference itself
    decides. It is empty where no margin is stated.

    Args:
        estimates: rows of `estimates.ESTIMATE_SCHEMA`, and what `of_rollouts` returns.
        theirs: what `published` returns.
        published_as: by model, the name of its published row.
        kinds: by environment, its kind, which is the published environment's name.
        margins: the largest difference that counts as agreement, by measure or by unit.
    """
    ours = estimates[estimates["model"].isin(published_as) & (estimates["n"] > 0)]
    ours = ours.assign(
        published_as=ours["model"].map(published_as), kind=ours["environment"].map(kinds)
    )
    keys = ["published_as", "kind", "group", "measure"]
    beside = theirs.rename(columns={"model": "published_as", "environment": "kind"})
    joined = beside.merge(ours, on=keys, suffixes=("_theirs", ""), how="inner")
    return pd.DataFrame(
        [_compared(row, margins) for row in joined.to_dict("records")], columns=list(COLUMNS)
    )


COLUMNS = (
    "model",
    "environment",
    "published_as",
    "table",
    "group",
    "measure",
    "ours",
    "ours_low",
    "ours_high",
    "theirs",
    "theirs_low",
    "theirs_high",
    "difference",
    "difference_low",
    "difference_high",
    "sign",
    "margin",
    "agreement",
    "mixed",
    "n",
    "status",
)


def _compared(row: Row, margins: Mapping[str, float]) -> dict[str, object]:
    measure = str(row["measure"])
    known = declared(measure)
    ours = Span.of(row, "")
    theirs = Span.of(row, "_theirs")
    difference = ours.mean - theirs.mean
    low, high = math.nan, math.nan
    if ours.wide and theirs.wide:
        low = difference - math.hypot(ours.mean - ours.low, theirs.high - theirs.mean)
        high = difference + math.hypot(ours.high - ours.mean, theirs.mean - theirs.low)
    margin = margins.get(measure, margins.get(unit_of(measure), math.nan))
    return {
        **row,
        "ours": ours.mean,
        "ours_low": ours.low,
        "ours_high": ours.high,
        "theirs": theirs.mean,
        "theirs_low": theirs.low,
        "theirs_high": theirs.high,
        "difference": difference,
        "difference_low": low,
        "difference_high": high,
        "sign": _sign(ours, theirs) if known is not None and known.signed else "",
        "margin": margin,
        "agreement": _agreement(difference, low, high, margin),
    }


class Span(NamedTuple):
    """A mean and its interval, NaN where there is none."""

    mean: float
    low: float
    high: float

    @classmethod
    def of(cls, row: Row, suffix: str) -> Span:
        return cls(*(float(row[f"{name}{suffix}"]) for name in ("mean", "ci_low", "ci_high")))

    @property
    def wide(self) -> bool:
        """Whether there is an interval, and one wider than [0, 0] or [1, 1]."""
        return self.high > self.low

    @property
    def clear(self) -> bool:
        """Whether the interval excludes zero."""
        return self.low > 0 or self.high < 0


def _sign(ours: Span, theirs: Span) -> str:
    if not theirs.clear:
        return ""
    if not ours.clear:
        return "unclear"
    return "same" if ours.mean * theirs.mean > 0 else "opposite"


def _agreement(difference: float, low: float, high: float, margin: float) -> str:
    if math.isnan(margin):
        return ""
    if math.isnan(low):
        low = high = difference
    if -margin <= low and high <= margin:
        return "within"
    return "beyond" if low > margin or high < -margin else "undecided"
