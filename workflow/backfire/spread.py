"""How much a result owes to wording, and to the words that an error repeats of the call.

All is read from the measures of single items, so that whatever is compared is compared on the
same items.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import pandas as pd

from backfire.conditions import WORDINGS
from backfire.estimates import Statistics, Wide, estimate_sample
from backfire.measures import find
from backfire.terms import Measure

OVERLAP_GROUPS = 3

WORDING_COLUMNS = (
    "model",
    "environment",
    "condition",
    "measure",
    "mean",
    "ci_low",
    "ci_high",
    "lowest",
    "highest",
    "sd",
    "wordings",
    "n",
    "n_clusters",
    "status",
)

OVERLAP_COLUMNS = (
    "model",
    "environment",
    "overlap_low",
    "overlap_high",
    "mean",
    "ci_low",
    "ci_high",
    "n",
    "n_clusters",
    "status",
)


def wordings(
    measures: pd.DataFrame, model: str, environment: str, statistics: Statistics
) -> pd.DataFrame:
    """G of `fail`, `neut` and `abstract`, and how it spreads over their wordings, nats.

    A row for each that was scored in other words, on the items that have all its wordings:
    the mean of the standard wording with its interval over tasks, and the `lowest`, the
    `highest` and the standard deviation `sd` of the means of all wordings, the standard one
    among them.

    Args:
        measures: rows of `measures.MEASURE_SCHEMA` of one model on one environment.
    """
    wide = Wide.of(measures.assign(model=model))
    rows = []
    for condition, others in WORDINGS.items():
        standard = find("G" if condition == "fail" else f"G_{condition}")
        names = [standard.name, *(f"G_{other}" for other in others)]
        names = [name for name in names if name in wide.values]
        if len(names) < 3 or standard.name not in names:
            continue
        values = np.array([wide.column(name) for name in names])
        complete = np.isfinite(values).all(axis=0)
        if not complete.any():
            continue
        means = values[:, complete].mean(axis=1)
        rows.append(
            {
                **_cell(wide, standard, complete, (model, environment), condition, statistics),
                "condition": condition,
                "measure": standard.name,
                "lowest": means.min(),
                "highest": means.max(),
                "sd": means.std(ddof=1),
                "wordings": len(names),
            }
        )
    return _frame(rows, WORDING_COLUMNS)


def by_overlap(
    measures: pd.DataFrame, model: str, environment: str, statistics: Statistics
) -> pd.DataFrame:
    """Mean `sem` in thirds of the items by the words that the error repeats of the call.

    Items of the same overlap stay together, so there may be fewer groups.

    Args:
        measures: rows of `measures.MEASURE_SCHEMA` of one model on one environment.
    """
    sem = find("sem")
    wide = Wide.of(measures.assign(model=model))
    overlap = np.where(np.isfinite(wide.column("sem")), wide.column("overlap_fail"), np.nan)
    if not np.isfinite(overlap).any():
        return _frame([], OVERLAP_COLUMNS)
    cut = pd.qcut(pd.Series(overlap), OVERLAP_GROUPS, labels=False, duplicates="drop")
    third = np.where(np.isfinite(overlap), cut.fillna(0.0), np.nan)  # one value makes no cut
    rows = []
    for group in sorted(set(third[np.isfinite(third)])):
        inside = third == group
        stream = f"overlap={group:g}"
        rows.append(
            {
                **_cell(wide, sem, inside, (model, environment), stream, statistics),
                "overlap_low": overlap[inside].min(),
                "overlap_high": overlap[inside].max(),
            }
        )
    return _frame(rows, OVERLAP_COLUMNS)


def of_items(
    measures: pd.DataFrame, conditions: Sequence[str], how: Callable[[Iterable[bool]], bool]
) -> pd.DataFrame:
    """The measures of the items that were scored under `all`, or `any`, of the conditions.

    A condition that no item was scored under is not asked for; all items where that leaves none.

    Args:
        measures: rows of `measures.MEASURE_SCHEMA` of one model on one environment.
    """
    scores = measures[measures["measure"].isin([f"logprob_{name}" for name in conditions])]
    if scores.empty:
        return measures
    scored = scores.pivot(index="item_id", columns="measure", values="value").notna()
    kept = [item for item, row in zip(scored.index, scored.to_numpy(), strict=True) if how(row)]
    return measures[measures["item_id"].isin(kept)]


def _cell(
    wide: Wide,
    measure: Measure,
    rows: Any,
    cell: tuple[str, str],
    stream: str,
    statistics: Statistics,
) -> dict[str, Any]:
    model, environment = cell
    sample = wide.sample(measure, rows)
    found = estimate_sample(measure, sample, statistics, (environment, stream))
    return {"model": model, "environment": environment, **asdict(found)}


def _frame(rows: list[dict[str, Any]], columns: Sequence[str]) -> pd.DataFrame:
    frame = pd.DataFrame(rows, columns=list(columns))
    return frame.astype(dict.fromkeys(("mean", "ci_low", "ci_high"), "float64"))
