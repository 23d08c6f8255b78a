"""The effect against the size of the model: fits over models, and where they would cross zero."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from backfire.cells import Study

MEASURES = ("G_per_token", "G", "copy", "sem", "form_share")
POOLED = "all"

Sizes = Mapping[str, int]
"""By model, its number of parameters, as counted when it was loaded."""

Families = Mapping[str, str]
"""By model, the family that it belongs to."""


@dataclass(frozen=True)
class Fit:
    """A straight line through the means of models against the logarithm of their size.

    Attributes:
        slope: change of the measure for ten times the parameters.
        slope_low, slope_high: Student's interval over models; NaN below three models.
        at_smallest, at_largest: the line at the ends of the data.
        crossing: the parameters at which the line is zero, NaN where that lies outside the data.
    """

    family: str
    environment: str
    measure: str
    slope: float
    slope_low: float
    slope_high: float
    smallest: int
    largest: int
    at_smallest: float
    at_largest: float
    crossing: float
    models: int


def fits(
    estimates: pd.DataFrame, sizes: Sizes, families: Families, confidence: float
) -> pd.DataFrame:
    """The lines of each measure and environment, within families and over all models.

    A line needs two sizes. Each model counts alike: the intervals of the single means are
    small beside the differences between models, and models are what a line generalises over.

    Args:
        estimates: rows of `estimates.ESTIMATE_SCHEMA`.
    """
    study = Study(estimates)
    found = [
        fit
        for environment in study.environments()
        for measure in MEASURES
        for family, models in groups(families)
        if (fit := _fit(study, sizes, models, (family, environment, measure), confidence))
    ]
    return pd.DataFrame(
        [asdict(fit) for fit in found], columns=[field.name for field in fields(Fit)]
    )


def groups(families: Families) -> Iterator[tuple[str, list[str]]]:
    """All models, then those of each family that has several."""
    yield POOLED, list(families)
    for family in dict.fromkeys(families.values()):
        models = [model for model in families if families[model] == family]
        if 1 < len(models) < len(families):
            yield family, models


def _fit(
    study: Study, sizes: Sizes, models: list[str], names: tuple[str, str, str], confidence: float
) -> Fit | None:
    _, environment, measure = names
    cells = {model: study.get(model, environment, measure) for model in models}
    points = [(sizes[model], cell.mean) for model, cell in cells.items() if cell is not None]
    if len({size for size, _ in points}) < 2:
        return None
    size, mean = np.array(points, dtype="float64").T
    line = stats.linregress(np.log10(size), mean)
    half = math.nan
    if len(points) > 2:
        half = line.stderr * float(stats.t.ppf((1 + confidence) / 2, len(points) - 2))
    ends = np.array([size.min(), size.max()])
    values = line.intercept + line.slope * np.log10(ends)
    inside = values[0] * values[1] < 0
    return Fit(
        *names,
        slope=line.slope,
        slope_low=line.slope - half,
        slope_high=line.slope + half,
        smallest=int(ends[0]),
        largest=int(ends[1]),
        at_smallest=values[0],
        at_largest=values[1],
        crossing=10 ** (-line.intercept / line.slope) if inside else math.nan,
        models=len(points),
    )


def millions(parameters: float) -> str:
    """A number of parameters as people write it: 135M, 1.7B."""
    return f"{parameters / 1e6:.0f}M" if parameters < 9.995e8 else f"{parameters / 1e9:.1f}B"


def said(fit: Mapping[Any, Any]) -> str:
    """What a line allows one to say, a zero crossing beyond the data not among it.

    Args:
        fit: a row of `fits`, of G per token.
    """
    span = f"from {millions(fit['smallest'])} to {millions(fit['largest'])} parameters"
    who = "all models" if fit["family"] == POOLED else fit["family"]
    start = f"{fit['environment']}, {who} ({fit['models']}), {span}: "
    if math.isnan(fit["slope_low"]):
        start += (
            f"G per token changes by {_signed(fit['at_largest'] - fit['at_smallest'])} nats; two "
            "models make no trend"
        )
    else:
        between = f"[{_signed(fit['slope_low'])}, {_signed(fit['slope_high'])}]"
        clear = fit["slope_low"] * fit["slope_high"] > 0
        start += (
            f"G per token changes by {_signed(fit['slope'])} nats {between} for ten times the "
            f"parameters{'' if clear else ', which is no clear trend'}"
        )
    if math.isnan(fit["crossing"]):
        return start + "; it crosses zero nowhere in between, and beyond nothing is claimed."
    return start + f"; the line crosses zero at about {millions(fit['crossing'])}."


def _signed(value: float) -> str:
    return f"{value:+.2f}".replace("-", "−")
