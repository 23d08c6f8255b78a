"""What may be said of this study beside the published one: sentences and tables."""

from __future__ import annotations

import math
from collections.abc import Mapping

import pandas as pd

from backfire.estimates import ALL
from backfire.replication import Row, unit_of
from backfire.tabular import Entry, Table, number


def claims(comparison: pd.DataFrame, labels: Mapping[str, str]) -> list[str]:
    """What the comparison allows one to say, a few sentences for each model and environment.

    Args:
        comparison: what `compare` returns.
        labels: by model, how it is printed, its weights named.
    """
    said = []
    for (model, environment), rows in comparison.groupby(["model", "environment"], sort=False):
        beside = f"{environment}, {labels[str(model)]} beside {rows['published_as'].iloc[0]}"
        informative = rows[rows["sign"] != ""]
        with_margin = rows[rows["agreement"] != ""]
        counts = with_margin["agreement"].value_counts()
        same = (informative["sign"] == "same").sum()
        said.append(
            f"{beside} as published: of {len(informative)} cells whose published sign is "
            f"informative, {same} have the same sign. Of {len(with_margin)} cells with a margin, "
            f"{counts.get('within', 0)} agree within it; undecided: "
            f"{counts.get('undecided', 0)}, beyond it: {counts.get('beyond', 0)}. "
            f"{_verdict(informative)}."
        )
    return said


UNDER = "under these weights and rewritten items"


def _verdict(informative: pd.DataFrame) -> str:
    """What the signs allow one to say; a sign that is unclear here contradicts nothing."""
    found = {
        sign: ", ".join(_cell_name(row) for row in rows.to_dict("records"))
        for sign, rows in informative.groupby("sign")
    }
    if "opposite" in found:
        return f"Not consistent with the published sign of {found['opposite']}, {UNDER}"
    if "same" not in found:
        return "No sign can be compared"
    clear = f"Consistent with the published signs, {UNDER}"
    return f"{clear}; unclear here: {found['unclear']}" if "unclear" in found else clear


def coverage(comparison: pd.DataFrame, theirs: pd.DataFrame, kinds: Mapping[str, str]) -> Table:
    """What became of every published cell: compared, or not run; a row per table and model.

    The data hold one row per published cell, those that were not run with nothing beside them.

    Args:
        comparison: what `compare` returns.
        theirs: what `published` returns.
        kinds: by environment, its kind, which is the published environment's name.
    """
    keys = ["table", "kind", "published_as", "group", "measure"]
    ours = comparison.assign(kind=comparison["environment"].map(kinds))
    ours = ours[[*keys, "model", "ours", "ours_low", "ours_high", "sign", "agreement"]]
    beside = theirs.rename(columns={"model": "published_as", "environment": "kind"})
    cells = beside.merge(ours, on=keys, how="left")
    cells["state"] = cells["ours"].notna().map({True: "compared", False: "not run"})
    heads = (
        *("table", "environment", "model", "cells", "compared", "same sign", "sign compared"),
        *("within the margin", "undecided", "beyond", "not run"),
    )
    rows = []
    for place, found in cells.groupby(["table", "kind", "published_as"], sort=False):
        run = found[found["state"] == "compared"]
        signs = run["sign"][run["sign"] != ""]
        kept = run["agreement"].value_counts()
        counts = (
            len(found),
            len(run),
            int((signs == "same").sum()),
            len(signs),
            *(int(kept.get(name, 0)) for name in ("within", "undecided", "beyond")),
            len(found) - len(run),
        )
        rows.append((*map(_named, place), *(Entry(str(count), count) for count in counts)))
    caption = "Every published estimate, and what became of it here."
    return Table("published", caption, heads, tuple(rows), cells, (DEPENDENCE,))


def _named(name: object) -> Entry:
    return Entry(str(name))


DEPENDENCE = (
    "The cells are not independent: all are computed from the same items, and some are sums or "
    "differences of others. The counts are a description, not a test."
)
MIXED = (
    "* In this published row −G is not copy + sem: its columns were computed from different items."
)


def table(comparison: pd.DataFrame, labels: Mapping[str, str]) -> Table:
    """The comparison as a printed table."""
    rows = []
    for row in comparison.to_dict("records"):
        unit = unit_of(row["measure"])
        mark = "*" if row["mixed"] else ""
        rows.append(
            (
                Entry(labels[row["model"]]),
                Entry(row["environment"]),
                Entry(_cell_name(row), code=True),
                _span(row, "ours", unit),
                _span(row, "theirs", unit, mark),
                _span(row, "difference", unit),
                Entry(row["sign"] or "—"),
                Entry(row["agreement"] or "—"),
            )
        )
    notes = [
        "Difference: ours − published, the two taken for independent samples (Zou and Donner "
        "2008); no interval where one of the two has none.",
        "Sign: compared where the published interval excludes zero and the measure could have had "
        "either sign; unclear where ours contains zero.",
        "Agreement: whether the interval of the difference lies within the margin of the config; "
        "without an interval, whether the difference does.",
        DEPENDENCE,
    ]
    if comparison["mixed"].any():
        notes.insert(0, MIXED)
    heads = (
        "model",
        "environment",
        "measure",
        "ours",
        "published",
        "difference",
        "sign",
        "agreement",
    )
    caption = (
        "This study's estimates beside the published ones, under other weights and other items."
    )
    return Table("replication", caption, heads, tuple(rows), comparison, tuple(notes))


def _cell_name(row: Row) -> str:
    name = str(row["measure"])
    return name if row["group"] == ALL else f"{name} {str(row['group']).partition('=')[2]}"


def _span(row: Row, name: str, unit: str, mark: str = "") -> Entry:
    mean, low, high = row[name], row[f"{name}_low"], row[f"{name}_high"]
    between = "" if math.isnan(low) else f"[{number(low, unit)}, {number(high, unit)}]"
    return Entry(number(mean, unit) + mark, mean, between)
