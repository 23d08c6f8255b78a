"""Own failures beside perturbed items: at one baseline, and as a prediction of what rollouts do.

A perturbed call starts out improbable, what a model wrote itself does not, and a record can lift
a call only as far as its baseline lies below certainty. So the two are compared at one baseline.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import NamedTuple

import numpy as np
import pandas as pd
import statsmodels.api as sm

from backfire.bootstrap import Sample
from backfire.estimates import Estimate, Statistics, Wide, estimate_sample
from backfire.harnesses import GREEDY
from backfire.items import Item
from backfire.measures import find
from backfire.terms import Measure

COMPARED = ("logprob_pre", "G", "G_per_token", "G_negative", "copy", "sem", "G_abstract",
            "greedy_repeat_fail")  # fmt: skip

REPEATED = Measure("repeat", "proportion", "the next turn is the failed action", (), signed=False)

PREDICTORS = ("G", "greedy_repeat_fail")
"""Of perturbed items: what the record does to the failed call, and whether it is then written."""


def groups(own: pd.DataFrame, perturbed: pd.DataFrame | None) -> dict[str, pd.DataFrame]:
    """Measures by where the failures come from; what greedy decoding wrote stands apart."""
    greedy = own["item_id"].str.endswith(f".{GREEDY}")
    found = {"own, greedy": own[greedy], "own, sampled": own[~greedy]}
    if perturbed is not None:
        found["perturbed"] = perturbed
    return {name: rows for name, rows in found.items() if len(rows)}


def compare(
    own: pd.DataFrame, perturbed: pd.DataFrame | None, statistics: Statistics, environment: str
) -> pd.DataFrame:
    """The measures `COMPARED` of each group: `failures measure` and the fields of an estimate.

    Args:
        own, perturbed: rows of `measures.MEASURE_SCHEMA` of a model on an environment.
    """
    rows = []
    for name, measures in groups(own, perturbed).items():
        wide = Wide.of(measures.assign(model=""))
        for measure in map(find, COMPARED):
            sample = wide.sample(measure, np.ones(len(wide), dtype=bool))
            cell = estimate_sample(measure, sample, statistics, (environment, name))
            rows.append({"failures": name, "measure": measure.name, **asdict(cell)})
    return pd.DataFrame(rows)


class Difference(NamedTuple):
    """G of own failures less that of perturbed items at the same log P(a | pre), in nats.

    `low` and `high` are the cluster-robust t interval; `ends` is the range of baselines that
    both groups have, `lines` are the two fitted lines' G at its ends.
    """

    value: float = np.nan
    low: float = np.nan
    high: float = np.nan
    n_own: int = 0
    n_perturbed: int = 0
    ends: tuple[float, float] = (np.nan, np.nan)
    lines: Mapping[str, tuple[float, float]] = {}
    status: str = "no interval: fewer than three of a kind at a common baseline"


def at_one_baseline(
    own: pd.DataFrame, perturbed: pd.DataFrame, statistics: Statistics
) -> Difference:
    """Least squares of G on log P(a | pre) and the kind of failure, where the baselines overlap.

    The standard errors are clustered on tasks.
    """
    points = pd.concat(
        [baselines(rows).assign(own=kind) for kind, rows in ((1.0, own), (0.0, perturbed))]
    )
    ranges = points.groupby("own")["logprob_pre"]
    ends = (float(ranges.min().max()), float(ranges.max().min()))
    inside = points[points["logprob_pre"].between(*ends)]
    counts = {kind: int((inside["own"] == kind).sum()) for kind in (0.0, 1.0)}
    if min(counts.values()) < 3 or inside["task_id"].nunique() < 3:
        return Difference(n_own=counts[1.0], n_perturbed=counts[0.0], ends=ends)
    fit = sm.OLS(inside["G"], sm.add_constant(inside[["logprob_pre", "own"]])).fit(
        cov_type="cluster",
        cov_kwds={"groups": pd.factorize(inside["task_id"])[0]},
        use_t=True,
    )
    low, high = fit.conf_int(alpha=1 - statistics.confidence).loc["own"]
    start, slope, shift = (float(fit.params[name]) for name in ("const", "logprob_pre", "own"))
    lines = {
        name: (start + step + slope * ends[0], start + step + slope * ends[1])
        for name, step in (("own", shift), ("perturbed", 0.0))
    }
    return Difference(shift, float(low), float(high), counts[1.0], counts[0.0], ends, lines, "ok")


def baselines(measures: pd.DataFrame) -> pd.DataFrame:
    """`logprob_pre G task_id` of the items that have both, by item."""
    both = measures[measures["measure"].isin(["logprob_pre", "G"])]
    wide = both.pivot(index="item_id", columns="measure", values="value")
    wide = wide.reindex(columns=["logprob_pre", "G"])
    tasks = measures.drop_duplicates("item_id").set_index("item_id")["task_id"]
    return wide.assign(task_id=tasks.reindex(wide.index)).dropna()


def by_family(
    items: Sequence[Item],
    repeated: Mapping[str, float],
    perturbed: pd.DataFrame,
    statistics: Statistics,
) -> pd.DataFrame:
    """Repetition of own failures beside G of perturbed items of other tasks, by error family.

    Args:
        items: own failures.
        repeated: by item, how often the action was repeated right after it, from 0 to 1.
        perturbed: rows of `measures.MEASURE_SCHEMA` of the probe on the same environment.

    Returns:
        `error_family`, then `repeat_` and `G_` with `mean ci_low ci_high n n_clusters status`;
        the families that both have.
    """
    gains = perturbed[perturbed["measure"] == "G"]
    rows = []
    for family in sorted({item.error_family for item in items if item.error_family}):
        own = [item for item in items if item.error_family == family and item.item_id in repeated]
        tasks = [item.task_id for item in own]
        others = gains[(gains["error_family"] == family) & ~gains["task_id"].isin(tasks)]
        if not own or others.empty:
            continue
        seen = _mean([repeated[item.item_id] for item in own], tasks, REPEATED, statistics, family)
        gain = _mean(others["value"], others["task_id"], find("G"), statistics, family)
        rows.append({"error_family": family, **_named("repeat", seen), **_named("G", gain)})
    return pd.DataFrame(rows, columns=["error_family", *_named("repeat"), *_named("G")])


_FIELDS = ("mean", "ci_low", "ci_high", "n", "n_clusters", "status")


def _named(prefix: str, cell: Estimate | None = None) -> dict[str, object]:
    values = asdict(cell or Estimate())
    return {f"{prefix}_{name}": values[name] for name in _FIELDS}


def _mean(
    values: Sequence[float] | pd.Series[float],
    tasks: Sequence[str] | pd.Series[str],
    measure: Measure,
    statistics: Statistics,
    family: str,
) -> Estimate:
    numbers = np.asarray(values, dtype=float)
    sample = Sample(
        numbers, np.ones(len(numbers)), np.asarray(tasks, dtype=object), np.zeros(len(numbers))
    )
    return estimate_sample(measure, sample, statistics, ("own failures", family))


def predictions(
    items: Sequence[Item], repeated: Mapping[str, float], perturbed: pd.DataFrame
) -> pd.DataFrame:
    """Each own failure with the means of perturbed items of its error family in other tasks.

    Returns:
        `item_id task_id error_family repeated` and the `PREDICTORS`.
    """
    rows = []
    for item in items:
        same = perturbed[
            (perturbed["error_family"] == item.error_family)
            & (perturbed["task_id"] != item.task_id)
            & perturbed["measure"].isin(PREDICTORS)
        ]
        if item.item_id in repeated and len(same):
            rows.append(
                {
                    "item_id": item.item_id,
                    "task_id": item.task_id,
                    "error_family": item.error_family,
                    "repeated": repeated[item.item_id],
                    **same.groupby("measure")["value"].mean(),
                }
            )
    columns = ["item_id", "task_id", "error_family", "repeated", *PREDICTORS]
    return pd.DataFrame(rows, columns=columns)


def prediction_slopes(predicted: pd.DataFrame, statistics: Statistics) -> pd.DataFrame:
    """Least squares of repetition on each predictor, with errors clustered on tasks.

    Returns:
        `predictor slope t_low t_high n n_clusters n_families status`, one row per predictor.
    """
    rows: list[dict[str, object]] = []
    for name in PREDICTORS:
        known = predicted.dropna(subset=[name])
        tasks, families = (known[column].nunique() for column in ("task_id", "error_family"))
        row = {"predictor": name, "n": len(known), "n_clusters": tasks, "n_families": families}
        if families < 3 or tasks < 3:
            fit = dict.fromkeys(("slope", "t_low", "t_high"), np.nan)
            rows.append({**row, **fit, "status": "undefined: fewer than three families"})
            continue
        regressors = sm.add_constant(known[[name]].astype(float))
        line = sm.OLS(known["repeated"].astype(float), regressors).fit(
            cov_type="cluster",
            cov_kwds={"groups": pd.factorize(known["task_id"])[0]},
            use_t=True,
        )
        low, high = line.conf_int(alpha=1 - statistics.confidence).loc[name]
        fit = {"slope": line.params[name], "t_low": low, "t_high": high}
        rows.append({**row, **fit, "status": "ok"})
    return pd.DataFrame(rows)
