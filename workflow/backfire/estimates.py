"""From measures of items to estimates: mean, interval and n of each measure in each group."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from backfire.bootstrap import (
    Floats,
    Interval,
    Sample,
    distribution,
    exact_bound,
    percentiles,
    robust,
)
from backfire.conditions import CORE
from backfire.measures import measures_for
from backfire.terms import Measure

ESTIMATE_SCHEMA = pa.schema(
    [
        pa.field("model", pa.string(), nullable=False),
        pa.field("environment", pa.string(), nullable=False),
        pa.field("group", pa.string(), nullable=False),  # all, or dimension=value
        pa.field("measure", pa.string(), nullable=False),
        pa.field("mean", pa.float64()),
        pa.field("ci_low", pa.float64()),
        pa.field("ci_high", pa.float64()),
        pa.field("t_low", pa.float64()),
        pa.field("t_high", pa.float64()),
        pa.field("template_low", pa.float64()),  # sensitivity: clustered on the task template
        pa.field("template_high", pa.float64()),
        pa.field("p", pa.float64()),  # two-sided, of a mean of zero; signed measures alone
        pa.field("n", pa.int32(), nullable=False),
        pa.field("n_clusters", pa.int32(), nullable=False),
        pa.field("d_z", pa.float64()),  # mean / standard deviation of the items
        pa.field("status", pa.string(), nullable=False),  # ok, or why the interval is what it is
    ]
)

Mask = npt.NDArray[np.bool_]

DIMENSIONS = ("operator", "error_family", "step", "template")
ALL = "all"
ALL_MODELS = "all models"
FEW_CLUSTERS = 10


@dataclass(frozen=True)
class Statistics:
    """How intervals are made: the config's `statistics`, and the study's seed."""

    seed: int
    resamples: int = 10_000
    confidence: float = 0.95


@dataclass(frozen=True)
class Estimate:
    """One cell; the fields are the columns of `ESTIMATE_SCHEMA` of the same names."""

    mean: float | None = None
    ci_low: float | None = None
    ci_high: float | None = None
    t_low: float | None = None
    t_high: float | None = None
    template_low: float | None = None
    template_high: float | None = None
    p: float | None = None
    n: int = 0
    n_clusters: int = 0
    d_z: float | None = None
    status: str = "no items"


def estimate(
    measures: pd.DataFrame, model: str, environment: str, statistics: Statistics
) -> pd.DataFrame:
    """Every measure on all items, the core's on each group too: rows of `ESTIMATE_SCHEMA`.

    A measure that the conditions allow and no item has stands under `all` with n = 0.

    Args:
        measures: rows of `measures.MEASURE_SCHEMA` of one model on one environment.
    """
    return _estimate(measures.assign(model=model), model, environment, statistics)


def estimate_all_models(
    measures: Mapping[str, pd.DataFrame], environment: str, statistics: Statistics
) -> pd.DataFrame:
    """The unweighted mean over models of each cell, as rows of the model `ALL_MODELS`.

    The models answer the same tasks, so each resample takes the same tasks from all of them.
    A share is the ratio of the mean numerators to the mean denominators, as published. The
    interval is about tasks: it holds these models fixed and says nothing of others.

    Args:
        measures: by model, rows of `measures.MEASURE_SCHEMA` on one environment.
    """
    rows = pd.concat([rows.assign(model=model) for model, rows in measures.items()])
    return _estimate(rows, ALL_MODELS, environment, statistics)


@dataclass(frozen=True)
class Wide:
    """Measures of items as a matrix: one row per item and model, NaN where a measure is absent."""

    values: Mapping[str, Floats]
    facts: Mapping[str, npt.NDArray[Any]]

    @classmethod
    def of(cls, measures: pd.DataFrame) -> Wide:
        """From a long table with a column `model`; the order of its rows does not matter."""
        keys = ["model", "item_id"]
        values = measures.pivot(index=keys, columns="measure", values="value")
        facts = measures.drop_duplicates(keys).set_index(keys).reindex(values.index).reset_index()
        return cls(
            {str(name): values[name].to_numpy("float64") for name in values},
            {name: facts[name].to_numpy(object) for name in ("model", "task_id", *DIMENSIONS)},
        )

    def __len__(self) -> int:
        return len(self.facts["model"])

    def sample(self, measure: Measure, rows: Mask, cluster: str = "task_id") -> Sample:
        """The sample of a measure on the items of `rows` that have it."""
        if measure.ratio is None:
            numerator = self.column(measure.name)
            denominator = np.ones(len(numerator))
        else:
            numerator = measure.ratio.scale * self.column(measure.ratio.numerator)
            denominator = self.column(measure.ratio.denominator)
        keep = rows & np.isfinite(numerator) & np.isfinite(denominator)
        return Sample(
            numerator[keep],
            denominator[keep],
            self.facts[cluster][keep],
            self.facts["model"][keep],
        )

    def groups(self) -> Iterator[tuple[str, Mask]]:
        """All rows, then those of each value of each dimension; absent values form no group."""
        yield ALL, np.ones(len(self), dtype=bool)
        for dimension in DIMENSIONS:
            column = self.facts[dimension]
            for value in sorted(set(column[self.known(dimension)])):
                label = int(value) if dimension == "step" else value
                yield f"{dimension}={label}", column == value

    def known(self, dimension: str) -> Mask:
        """The rows whose value of the dimension is known."""
        return np.asarray(pd.notna(self.facts[dimension]))

    def column(self, name: str) -> Floats:
        """The values of a measure, NaN where absent."""
        absent = np.full(len(self), np.nan)
        return self.values.get(name, absent)


def estimate_sample(
    measure: Measure,
    sample: Sample,
    statistics: Statistics,
    stream: tuple[str, ...],
    templates: Sample | None = None,
) -> Estimate:
    """One cell from its sample, with an explicit status where no interval can be had.

    Args:
        stream: names that, with the seed, fix which clusters are resampled. Cells of one
            environment and group share it, so contrasts stay paired and no cell moves another.
        templates: the same sample clustered on the task template, where there are templates.
    """
    if len(sample.numerator) == 0:
        return Estimate()
    plain = Estimate(n=len(sample.numerator), n_clusters=sample.n_clusters)
    if measure.ratio is not None and not _denominator_has_a_sign(sample, statistics, stream):
        return replace(plain, status="undefined: the denominator is not clear of zero")

    plain = replace(plain, mean=sample.estimate())
    if measure.signed and len(set(sample.stratum)) == 1:
        plain = replace(plain, d_z=_standardised(sample.numerator))
    if measure.unit == "proportion" and np.ptp(sample.numerator) == 0:
        return _bounded(plain, statistics.confidence)
    if sample.n_clusters == 1:
        return replace(plain, status="no interval: a single cluster")
    interval = _interval(sample, statistics, stream)
    if isinstance(interval, str):
        return replace(plain, status=f"no interval: {interval}")

    t, p = robust(sample, statistics.confidence)
    cell = replace(
        plain,
        ci_low=interval.low,
        ci_high=interval.high,
        t_low=t.low,
        t_high=t.high,
        p=p if measure.signed else None,
        status=_remarks(measure, sample),
    )
    if templates is not None and templates.n_clusters > 1:
        sensitivity = _interval(templates, statistics, (*stream, "template"))
        if not isinstance(sensitivity, str):
            cell = replace(cell, template_low=sensitivity.low, template_high=sensitivity.high)
    return cell


def _estimate(
    measures: pd.DataFrame, model: str, environment: str, statistics: Statistics
) -> pd.DataFrame:
    wide = Wide.of(measures)
    prefix = "logprob_"
    conditions = [name.removeprefix(prefix) for name in wide.values if name.startswith(prefix)]
    n_models = len(set(wide.facts["model"]))
    cells = []
    for group, rows in wide.groups():
        templated = rows & wide.known("template")
        for measure in measures_for(conditions).values():
            # Variants are many and their items few: only the core's measures are split.
            if group != ALL and not set(measure.conditions) <= set(CORE):
                continue
            sample = wide.sample(measure, rows)
            if group != ALL and len(sample.numerator) == 0:
                continue
            by_template = wide.sample(measure, templated, "template")
            complete = len(by_template.numerator) == len(sample.numerator)
            cell = estimate_sample(
                measure, sample, statistics, (environment, group), by_template if complete else None
            )
            absent = n_models - len(set(sample.stratum))
            if 0 < absent < n_models:
                cell = replace(cell, status=f"{cell.status}; {absent} of {n_models} models lack it")
            names = {"model": model, "environment": environment, "group": group}
            cells.append({**names, "measure": measure.name, **asdict(cell)})
    frame = pd.DataFrame(cells, columns=ESTIMATE_SCHEMA.names)
    numeric = [field.name for field in ESTIMATE_SCHEMA if pa.types.is_floating(field.type)]
    return frame.astype(dict.fromkeys(numeric, "float64"))


def _interval(sample: Sample, statistics: Statistics, stream: tuple[str, ...]) -> Interval | str:
    """The percentile interval, or why there is none."""
    found = distribution(sample, statistics.resamples, statistics.seed, stream)
    if not np.isfinite(found).all():
        return "some resamples leave a model without items"
    scale = np.abs(sample.numerator).mean() / abs(sample.denominator.mean())
    if np.ptp(found) <= 1e-12 * scale:
        return "no variation between clusters"
    return percentiles(found, statistics.confidence)


def _denominator_has_a_sign(
    sample: Sample, statistics: Statistics, stream: tuple[str, ...]
) -> bool:
    """Whether the denominator's interval excludes zero, without which a ratio has no meaning."""
    ones = np.ones(len(sample.denominator))
    below = replace(sample, numerator=sample.denominator, denominator=ones)
    if below.n_clusters == 1:
        return below.estimate() != 0
    interval = _interval(below, statistics, stream)
    if isinstance(interval, str):
        return below.estimate() != 0
    return interval.low * interval.high > 0


def _standardised(values: Floats) -> float | None:
    """Cohen's d_z: mean over standard deviation of paired differences."""
    if len(values) < 2 or np.ptp(values) == 0:
        return None
    return float(values.mean() / values.std(ddof=1))


def _bounded(cell: Estimate, confidence: float) -> Estimate:
    """The exact one-sided bound of a proportion of 0/n or n/n.

    The cluster is the independent unit, so the bound is Clopper and Pearson's for as many
    trials as there are clusters; on items it would be too tight.
    """
    bound = exact_bound(cell.n_clusters, confidence)
    status = f"exact one-sided bound from {cell.n_clusters} clusters"
    if cell.mean == 0:
        return replace(cell, ci_low=0.0, ci_high=bound, status=f"0/{cell.n}: {status}")
    return replace(cell, ci_low=1 - bound, ci_high=1.0, status=f"{cell.n}/{cell.n}: {status}")


def few_clusters(n_clusters: int) -> str:
    """The warning beside an interval from fewer than `FEW_CLUSTERS` clusters."""
    return f"few clusters ({n_clusters}): the interval is too narrow"


def _remarks(measure: Measure, sample: Sample) -> str:
    remarks = []
    if sample.n_clusters < FEW_CLUSTERS:
        remarks.append(few_clusters(sample.n_clusters))
    if measure.unit == "share" and not 0 <= sample.estimate() <= 1:
        remarks.append("not a share: outside 0 to 1")
    return "; ".join(remarks) or "ok"
