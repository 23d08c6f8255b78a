"""Where the sign of G comes from: log P(a | fail) against log P(a | pre), item by item.

A record may push up what the model would not have written and push down what it was about
to write. The regression line crosses log P(a | fail) = log P(a | pre) at the baseline above
which a record helps.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import statsmodels.api as sm

from backfire.bootstrap import Floats, draws, percentiles
from backfire.estimates import FEW_CLUSTERS, Statistics, Wide, estimate_sample, few_clusters
from backfire.measures import find

SIGN_MAP_SCHEMA = pa.schema(
    [
        pa.field("model", pa.string(), nullable=False),
        pa.field("environment", pa.string(), nullable=False),
        pa.field("term", pa.string(), nullable=False),  # slope, intercept, zero_crossing
        pa.field("value", pa.float64()),  # intercept and crossing in nats
        pa.field("ci_low", pa.float64()),
        pa.field("ci_high", pa.float64()),
        pa.field("t_low", pa.float64()),
        pa.field("t_high", pa.float64()),
        pa.field("n", pa.int32(), nullable=False),
        pa.field("n_clusters", pa.int32(), nullable=False),
        pa.field("baseline_low", pa.float64()),  # the range of log P(a | pre), nats
        pa.field("baseline_high", pa.float64()),
        pa.field("status", pa.string(), nullable=False),
    ]
)

DECILE_SCHEMA = pa.schema(
    [
        pa.field("model", pa.string(), nullable=False),
        pa.field("environment", pa.string(), nullable=False),
        pa.field("decile", pa.int32(), nullable=False),  # 1 is the least probable tenth
        pa.field("baseline_low", pa.float64(), nullable=False),
        pa.field("baseline_mean", pa.float64(), nullable=False),
        pa.field("baseline_high", pa.float64(), nullable=False),
        pa.field("mean", pa.float64()),  # of G, nats
        pa.field("ci_low", pa.float64()),
        pa.field("ci_high", pa.float64()),
        pa.field("n", pa.int32(), nullable=False),
        pa.field("n_clusters", pa.int32(), nullable=False),
        pa.field("status", pa.string(), nullable=False),
    ]
)

TERMS = ("slope", "intercept", "zero_crossing")


def sign_map(
    measures: pd.DataFrame, model: str, environment: str, statistics: Statistics
) -> pd.DataFrame:
    """The regression of log P(a | fail) on log P(a | pre), one row of `SIGN_MAP_SCHEMA` a term.

    `zero_crossing` is the baseline at which the line has G = 0, intercept / (1 - slope). It
    has no interval where the slope's contains 1, for then it may lie at infinity.

    Args:
        measures: rows of `measures.MEASURE_SCHEMA` of one model on one environment.
    """
    wide = Wide.of(measures.assign(model=model))
    before, after = wide.column("logprob_pre"), wide.column("logprob_fail")
    both = np.isfinite(before) & np.isfinite(after)
    before, after, tasks = before[both], after[both], wide.facts["task_id"][both]
    shared = {
        "model": model,
        "environment": environment,
        "n": len(before),
        "n_clusters": len(set(tasks)),
        "baseline_low": before.min(initial=np.inf),
        "baseline_high": before.max(initial=-np.inf),
    }
    if len(before) < 3 or np.ptp(before) == 0:
        status = "undefined: fewer than three items, or one baseline for all"
        fits = [Fit(term, status=status) for term in TERMS]
    else:
        fits = _regression(before, after, tasks, statistics, environment)
    rows = [{**shared, **fit._asdict()} for fit in fits]
    frame = pd.DataFrame(rows, columns=SIGN_MAP_SCHEMA.names)
    numeric = [field.name for field in SIGN_MAP_SCHEMA if pa.types.is_floating(field.type)]
    frame = frame.astype(dict.fromkeys(numeric, "float64"))
    return frame.replace([np.inf, -np.inf], np.nan)


def deciles(
    measures: pd.DataFrame, model: str, environment: str, statistics: Statistics
) -> pd.DataFrame:
    """Mean G in each tenth of the items by log P(a | pre), rows of `DECILE_SCHEMA`.

    Fewer rows where there are fewer than ten items.
    """
    gain = find("G")
    wide = Wide.of(measures.assign(model=model))
    baseline = np.where(np.isfinite(wide.column("G")), wide.column("logprob_pre"), np.nan)
    order = pd.Series(baseline).rank(method="first").to_numpy()
    tenth = np.ceil(10 * order / np.isfinite(order).sum())
    rows = []
    for decile in sorted(set(tenth[np.isfinite(tenth)])):
        inside = tenth == decile
        stream = (environment, f"decile={decile:g}")
        cell = estimate_sample(gain, wide.sample(gain, inside), statistics, stream)
        place = {
            "model": model,
            "environment": environment,
            "decile": int(decile),
            "baseline_low": baseline[inside].min(),
            "baseline_mean": baseline[inside].mean(),
            "baseline_high": baseline[inside].max(),
        }
        rows.append({**place, **asdict(cell)})
    frame = pd.DataFrame(rows, columns=DECILE_SCHEMA.names)
    return frame.astype(dict.fromkeys(("mean", "ci_low", "ci_high"), "float64"))


class Fit(NamedTuple):
    """One term of the line, with the columns of `SIGN_MAP_SCHEMA`."""

    term: str
    value: float | None = None
    ci_low: float | None = None
    ci_high: float | None = None
    t_low: float | None = None
    t_high: float | None = None
    status: str = "ok"


def _regression(
    before: Floats,
    after: Floats,
    tasks: npt.NDArray[Any],
    statistics: Statistics,
    environment: str,
) -> list[Fit]:
    cluster, labels = pd.factorize(tasks, sort=True)
    # About the mean, so that the sums of squares keep their digits.
    x = before - before.mean()
    moments = np.zeros((5, len(labels)))
    for total, values in zip(moments, (np.ones_like(x), x, after, x * x, x * after), strict=True):
        np.add.at(total, cluster, values)
    slope, intercept, crossing = _line(moments.sum(axis=1), before.mean())
    values = dict(zip(TERMS, (float(slope), float(intercept), float(crossing)), strict=True))
    if len(labels) == 1:
        return [
            Fit(term, value, status="no interval: a single cluster")
            for term, value in values.items()
        ]

    counts = draws(len(labels), statistics.resamples, statistics.seed, (environment, "sign map"))
    resampled = _line(np.einsum("rc,mc->mr", counts, moments), before.mean())
    if not np.isfinite(resampled[:2]).all():
        status = "no interval: undefined in some resamples"
        return [Fit(term, value, status=status) for term, value in values.items()]
    intervals = {
        term: percentiles(drawn, statistics.confidence)
        for term, drawn in zip(TERMS[:2], resampled, strict=False)
    }
    fit = sm.OLS(after, sm.add_constant(before)).fit(
        cov_type="cluster", cov_kwds={"groups": cluster}, use_t=True
    )
    (b_low, b_high), (a_low, a_high) = fit.conf_int(alpha=1 - statistics.confidence).tolist()
    few = len(labels) < FEW_CLUSTERS
    status = few_clusters(len(labels)) if few else "ok"
    line = [
        Fit("slope", values["slope"], *intervals["slope"], a_low, a_high, status),
        Fit("intercept", values["intercept"], *intervals["intercept"], b_low, b_high, status),
    ]
    if intervals["slope"].low <= 1 <= intervals["slope"].high:
        status = "no interval: the slope may be 1, with no crossing"
        return [*line, Fit("zero_crossing", values["zero_crossing"], status=status)]
    crossed = percentiles(resampled[2], statistics.confidence)
    remark = None
    if values["zero_crossing"] > 0:
        remark = "no baseline can reach it: above log P = 0"
    elif not before.min() <= values["zero_crossing"] <= before.max():
        remark = "extrapolated: outside the range of the baselines"
    if remark is not None:
        status = f"{status}; {remark}" if few else remark
    return [*line, Fit("zero_crossing", values["zero_crossing"], *crossed, status=status)]


def _line(moments: Floats, centre: float) -> Floats:
    """Slope, intercept and zero crossing from sums of 1, x, y, xx and xy, x about `centre`."""
    n, x, y, xx, xy = moments
    with np.errstate(divide="ignore", invalid="ignore"):
        slope = (n * xy - x * y) / (n * xx - x * x)
        intercept = (y - slope * x) / n - slope * centre
        return np.asarray([slope, intercept, intercept / (1 - slope)])
