"""The tables of estimates: from estimates of any number of models to printed tables.

Tables that describe the study itself are in `descriptions`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import pandas as pd
from statsmodels.stats.multitest import multipletests

from backfire.conditions import CONDITIONS
from backfire.estimates import ALL, ALL_MODELS
from backfire.measures import find
from backfire.numbering import NUMBERS, file_name
from backfire.tabular import Entry, Table, number
from backfire.terms import Measure

COLUMNS = {
    "gain": ("G", "G_per_token", "copy", "sem", "G_abstract"),
    "repetition": (
        "p_repeat_pre",
        "p_repeat_fail",
        "p_repeat_abstract",
        "p_repeat_shift",
        "greedy_repeat_pre",
        "greedy_repeat_fail",
        "greedy_repeat_abstract",
    ),
    "controls": ("G_negative", "margin_shift", "repair", "copy_succ", "polarity"),
    "shares": ("form_share", "abstract_removed", "G_per_byte"),
    "padding": ("copy", "sem", "copy_pad", "sem_pad", "pad_mismatch", "pad_matched"),
    "placebo": (
        "copy",
        "copy_unrelated",
        "copy_specific",
        "G_fail_other",
        "G_fail_unrelated",
        "copy_echo",
        "sem_echo",
    ),
}
"""The measures of each table of estimates, in the order of their columns."""

TITLES = {
    "gain": "Corrective gain and its decomposition",
    "repetition": "Repetition of the failed action",
    "controls": "Controls",
    "shares": "Shares of the effect, and its size per byte",
    "padding": "The decomposition with an acknowledgement as long as the error",
    "placebo": "The decomposition against unrelated calls and echoing acknowledgements",
    "families": "Corrective gain by error family",
    "variants": "Records written otherwise, against the standard record",
}

MARKS = {
    "exact one-sided bound": ("†", "all or none of the items: an exact one-sided bound"),
    "few clusters": ("‡", "fewer than ten tasks: the interval is too narrow"),
    "not a share": ("§", "not a share: outside 0 to 1"),
    "models lack it": ("¶", "not all models have such items; the mean is over those that do"),
}
"""What is printed beside a cell for a remark in its status, and its note."""

DATA_COLUMNS = (
    "environment",
    "model",
    "label",
    "group",
    "measure",
    "unit",
    "mean",
    "ci_low",
    "ci_high",
    "t_low",
    "t_high",
    "template_low",
    "template_high",
    "n",
    "n_clusters",
    "d_z",
    "status",
)
"""The columns of a table's CSV, one row per printed cell."""

Labels = Mapping[str, str]
"""By model, how it is printed, its weights named: `{"m": "m (4-bit Q4_1 weights)"}`."""


class Cells:
    """The estimates of one environment under the labelled models, looked up for printing."""

    def __init__(self, estimates: pd.DataFrame, environment: str, labels: Labels) -> None:
        shown = {**labels, ALL_MODELS: f"{ALL_MODELS} (unweighted mean)"}
        if len(labels) == 1:
            del shown[ALL_MODELS]
        chosen = estimates["model"].isin(shown) & (estimates["environment"] == environment)
        frame = estimates[chosen]
        self.frame = frame.assign(label=frame["model"].map(shown))
        self.models = {
            model: label for model, label in shown.items() if model in set(frame["model"])
        }
        self._rows = {
            (row["model"], row["measure"], row["group"]): row for row in frame.to_dict("records")
        }

    def entry(self, model: str, measure: Measure, group: str = ALL) -> Entry:
        """A cell as printed: the mean, bold where its interval excludes zero, interval and n."""
        row = self._rows.get((model, measure.name, group))
        if row is None or row["n"] == 0:
            return Entry("—")
        if math.isnan(row["mean"]):
            return Entry("undefined", detail=f"n={row['n']}")
        low, high = row["ci_low"], row["ci_high"]
        unit = measure.unit
        between = "[no interval]"
        if not math.isnan(low):
            between = f"[{number(low, unit)}, {number(high, unit)}]"
        marks = "".join(mark for text, (mark, _) in MARKS.items() if text in row["status"])
        bold = measure.signed and (low > 0 or high < 0)
        return Entry(number(row["mean"], unit), row["mean"], f"{between} n={row['n']}{marks}", bold)

    def count(self, model: str, measure: str, group: str = ALL) -> int:
        """The number of items of a cell."""
        row = self._rows.get((model, measure, group))
        return 0 if row is None else int(row["n"])

    def present(self, measure: str) -> bool:
        """Whether some model has items with the measure."""
        return any(self.count(model, measure) for model in self.models)

    def data(self, measures: Sequence[Measure], groups: Sequence[str] = (ALL,)) -> pd.DataFrame:
        """The printed cells, one row each, with all digits."""
        names = [measure.name for measure in measures]
        found = self.frame[self.frame["measure"].isin(names) & self.frame["group"].isin(groups)]
        units = {measure.name: measure.unit for measure in measures}
        return found.assign(unit=found["measure"].map(units))[list(DATA_COLUMNS)]

    def groups(self, dimension: str) -> list[str]:
        """The groups of a dimension, sorted, numbers by size."""
        prefix = f"{dimension}="
        found = {group for group in self.frame["group"] if group.startswith(prefix)}
        return sorted(found, key=lambda group: (len(group) if dimension == "step" else 0, group))


def by_model(
    estimates: pd.DataFrame, table: str, environment: str, kind: str, labels: Labels
) -> Table:
    """A table with one row per model and one column per measure of `COLUMNS[table]`.

    Where some items lack `neut`, G on the items of the decomposition stands beside G on all.

    Args:
        estimates: rows of `estimates.ESTIMATE_SCHEMA` of all models, those of `ALL_MODELS` among
            them where there are several.
        environment: the environment's name in the config; `kind`, its kind.
    """
    cells = Cells(estimates, environment, labels)
    names = list(COLUMNS[table])
    if table == "gain" and any(
        cells.count(model, "G") != cells.count(model, "G_decomposed") for model in cells.models
    ):
        names.insert(2, "G_decomposed")
    measures = [find(name) for name in names if cells.present(name)]
    absent = [name for name in names if not cells.present(name)]
    data = cells.data(measures)
    return Table(
        file_name(table, environment, kind),
        caption(table, TITLES[table], environment, kind, labels),
        ("model", *(f"{measure.name} ({measure.unit})" for measure in measures)),
        tuple(
            (Entry(label), *(cells.entry(model, measure) for measure in measures))
            for model, label in cells.models.items()
        ),
        data,
        (
            *(f"No item has the terms of {name}." for name in absent),
            "; ".join(f"{measure.name}: {measure.formula}" for measure in measures) + ".",
            *remarks(data),
        ),
    )


def by_group(
    estimates: pd.DataFrame,
    dimension: str,
    environment: str,
    kind: str,
    labels: Labels,
    measure: str = "G",
) -> Table:
    """One measure split by a dimension of the items: a row per value, a column per model.

    Args:
        dimension: one of `estimates.DIMENSIONS`; by `error_family` it is the paper's Table 12.
    """
    cells = Cells(estimates, environment, labels)
    groups = cells.groups(dimension)
    what = find(measure)
    data = cells.data([what], groups)
    table = (
        "families" if dimension == "error_family" and measure == "G" else f"{measure}_{dimension}"
    )
    title = TITLES.get(table, f"{measure} ({what.unit}) by {dimension.replace('_', ' ')}")
    return Table(
        file_name(table, environment, kind),
        caption(table, title, environment, kind, labels),
        (dimension.replace("_", " "), *cells.models.values()),
        tuple(
            (
                Entry(group.removeprefix(f"{dimension}="), code=True),
                *(cells.entry(model, what, group) for model in cells.models),
            )
            for group in groups
        ),
        data,
        (*_signs(data, what), *remarks(data)),
    )


def by_condition(
    estimates: pd.DataFrame,
    conditions: Iterable[str],
    environment: str,
    kind: str,
    labels: Labels,
) -> Table:
    """`delta_<condition>` of each way to write the record: a row per condition, a column per model.

    The terms of a decomposition have their own tables, and so have wordings: they have no row.
    """
    cells = Cells(estimates, environment, labels)
    names = [n for n in conditions if CONDITIONS[n].kind not in ("reference", "wording")]
    deltas = {n: find(f"delta_{n}") for n in names if cells.present(f"delta_{n}")}
    absent = [name for name in names if not cells.present(f"logprob_{name}")]
    data = cells.data(list(deltas.values()))
    return Table(
        file_name("variants", environment, kind),
        caption("variants", TITLES["variants"], environment, kind, labels),
        ("condition", *cells.models.values()),
        tuple(
            (
                Entry(name, code=True),
                *(cells.entry(model, delta) for model in cells.models),
            )
            for name, delta in deltas.items()
        ),
        data,
        (
            "log P(a | condition) − log P(a | fail) in nats: above zero, the record so written "
            "makes repeating likelier than the standard one.",
            *([NOT_SCORED.format(", ".join(absent))] if absent else []),
            *remarks(data),
        ),
    )


NOT_SCORED = (
    "Without a score: {}. No item has what they need, or no chat template here has such a form."
)


def holm(estimates: pd.DataFrame, labels: Labels) -> Table:
    """Holm's correction over the declared family: G of each model in each environment."""
    chosen = (estimates["measure"] == "G") & (estimates["group"] == ALL)
    family = estimates[chosen & estimates["model"].isin(labels)].reset_index(drop=True)
    tested = family["p"].notna()
    family["p_holm"] = math.nan
    if tested.any():
        family.loc[tested, "p_holm"] = multipletests(family.loc[tested, "p"], method="holm")[1]
    rows = [
        (
            Entry(labels[row["model"]]),
            Entry(row["environment"], code=True),
            Cells(family, row["environment"], labels).entry(row["model"], find("G")),
            Entry(number(row["p"], "p"), row["p"]),
            Entry(number(row["p_holm"], "p"), row["p_holm"]),
        )
        for row in family.to_dict("records")
    ]
    kept = ["model", "environment", "mean", "n", "n_clusters", "p", "p_holm", "status"]
    notes = [
        "p: two-sided, of the cluster-robust t test of G = 0. The declared family is G for each "
        f"configured model and environment: {tested.sum()} tests."
    ]
    if not tested.all():
        notes.append(f"Without a test, and outside the family: {(~tested).sum()}.")
    return Table(
        "holm",
        "G of every model and environment, corrected for many tests by Holm's method.",
        ("model", "environment", "G (nats)", "p", "p by Holm"),
        tuple(rows),
        family[kept],
        tuple(notes),
    )


def caption(table: str, title: str, environment: str, kind: str, labels: Labels) -> str:
    """A table's title with its number in the paper, its environment and its models."""
    given = NUMBERS.get((table, kind))
    paper = f" (the paper's Table {given})" if given else ""
    models = ", ".join(labels.values()) if len(labels) <= 3 else f"{len(labels)} models"
    return f"{title}{paper}: {environment}, {models}."


def remarks(data: pd.DataFrame) -> tuple[str, ...]:
    """What the printed numbers are, and the notes of the marks that occur."""
    found = data[data["n"] > 0]
    used = [
        f"{mark} {note}."
        for text, (mark, note) in MARKS.items()
        if found["status"].str.contains(text, regex=False).any()
    ]
    reasons = sorted(
        {status for status in found["status"] if status.startswith(("no interval", "undefined"))}
    )
    span = ""
    if len(found):
        low, high = found["n_clusters"].min(), found["n_clusters"].max()
        span = f" Tasks: {low}." if low == high else f" Tasks: {low} to {high}."
    about = (
        "Mean over items [interval of the cluster bootstrap over tasks] n=number of items; bold "
        f"where the interval excludes zero and either sign was possible.{span}"
    )
    if ALL_MODELS in set(found["model"]):
        about += " For all models n counts an item once per model."
    return (about, *used, *(f"{reason.capitalize()}." for reason in reasons))


def _signs(data: pd.DataFrame, measure: Measure) -> tuple[str, ...]:
    """The statement whether any cell is positive."""
    if not measure.signed or not len(data):
        return ()
    positive = data[data["mean"] > 0]
    if not len(positive):
        return (f"No cell is positive ({len(data)} cells).",)
    clear = (positive["ci_low"] > 0).sum()
    return (
        f"Positive cells: {len(positive)} of {len(data)}, {clear} of them with an interval that "
        "excludes zero.",
    )
