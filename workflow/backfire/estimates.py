"""From measures of items to estimates: mean, interval and n of each measure in each group."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace

import numpy as np
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
from backfire.measures import Measure, measures_for

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
    """Every measure on all items and on each group, one row of `ESTIMATE_SCHEMA` per cell.

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


def groups(measures: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """All items, then those of each value of each dimension; absent values form no group."""
    yield ALL, measures
    for dimension in DIMENSIONS:
        for value, rows in measures.groupby(dimension, sort=True):
            yield f"{dimension}={value}", rows


def sample_of(
    measure: Measure, values: Mapping[str, pd.DataFrame], cluster: str = "task_id"
) -> Sample:
    """The sample of a measure.

    Args:
        values: by measure, its rows of `measures.MEASURE_SCHEMA` with a column `model`.
        cluster: the column whose values are resampled whole.
    """
    if measure.ratio is None:
        rows = values[measure.name]
        numerator = rows["value"].to_numpy(dtype="float64")
        denominator = np.ones(len(rows))
    else:
        keys = ["model", "item_id"]
        below = values[measure.ratio.denominator][[*keys, "value"]]
        rows = values[measure.ratio.numerator].merge(
            below, on=keys, suffixes=("", "_below"), validate="one_to_one"
        )
        numerator = measure.ratio.scale * rows["value"].to_numpy(dtype="float64")
        denominator = rows["value_below"].to_numpy(dtype="float64")
    return Sample(
        numerator,
        denominator,
        rows[cluster].to_numpy(dtype=object),
        rows["model"].to_numpy(dtype=object),
    )


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
    if interval is None:
        return replace(plain, status="no interval: no variation between clusters")

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
        if sensitivity is not None:
            cell = replace(cell, template_low=sensitivity.low, template_high=sensitivity.high)
    return cell


def _estimate(
    measures: pd.DataFrame, model: str, environment: str, statistics: Statistics
) -> pd.DataFrame:
    prefix = "logprob_"
    named = [str(name) for name in measures["measure"].unique()]
    conditions = [name.removeprefix(prefix) for name in named if name.startswith(prefix)]
    nothing = measures.iloc[:0]
    cells = []
    for group, rows in groups(measures):
        values = dict(iter(rows.groupby("measure", sort=False)))
        for measure in measures_for(conditions).values():
            terms = measure.ratio and (measure.ratio.numerator, measure.ratio.denominator)
            own = {name: values.get(name, nothing) for name in terms or (measure.name,)}
            sample = sample_of(measure, own)
            if group != ALL and len(sample.numerator) == 0:
                continue
            with_template = {name: part.dropna(subset="template") for name, part in own.items()}
            templates = sample_of(measure, with_template, "template")
            complete = len(templates.numerator) == len(sample.numerator)
            cell = estimate_sample(
                measure, sample, statistics, (environment, group), templates if complete else None
            )
            absent = measures["model"].nunique() - len(set(sample.stratum))
            if absent:
                cell = replace(cell, status=f"{cell.status}; {absent} models have no items")
            names = {"model": model, "environment": environment, "group": group}
            cells.append({**names, "measure": measure.name, **asdict(cell)})
    frame = pd.DataFrame(cells, columns=ESTIMATE_SCHEMA.names)
    numeric = [field.name for field in ESTIMATE_SCHEMA if pa.types.is_floating(field.type)]
    return frame.astype(dict.fromkeys(numeric, "float64"))


def _interval(sample: Sample, statistics: Statistics, stream: tuple[str, ...]) -> Interval | None:
    """The percentile interval; None where every resample gives the same value."""
    found = distribution(sample, statistics.resamples, statistics.seed, stream)
    scale = np.abs(sample.numerator).mean() / abs(sample.denominator.mean())
    if np.ptp(found) <= 1e-12 * scale:
        return None
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
    return below.estimate() != 0 if interval is None else interval.low * interval.high > 0


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


def _remarks(measure: Measure, sample: Sample) -> str:
    remarks = []
    if sample.n_clusters < FEW_CLUSTERS:
        remarks.append(f"few clusters ({sample.n_clusters}): the interval is too narrow")
    if measure.unit == "share" and not 0 <= sample.estimate() <= 1:
        remarks.append("not a share: outside 0 to 1")
    return "; ".join(remarks) or "ok"
