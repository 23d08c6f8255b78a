"""The tables of the ways to write the record: what each leaves of the effect, and its cost."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd

from backfire.conditions import CONDITIONS, LADDER
from backfire.measures import declared
from backfire.numbering import file_name
from backfire.record_measures import is_record
from backfire.tables import Cells, Labels, caption, remarks
from backfire.tabular import Entry, Table, number

RECORD_MEASURES = ("G_{}", "{}_removed", "greedy_repeat_{}", "tokens_{}")
LADDER_MEASURES = ("failed_over_gold_{}", "G_{}", "tokens_{}")

HEADS = {
    "G_{}": "G (nats)",
    "{}_removed": "share of the effect removed",
    "greedy_repeat_{}": "greedy decoding repeats it",
    "tokens_{}": "tokens that the record adds",
    "failed_over_gold_{}": "log-odds of failed against right (nats)",
}


def records_of(names: Iterable[str]) -> list[str]:
    """The conditions that are ways to write a record, the standard one first."""
    return ["fail", *(name for name in names if is_record(CONDITIONS[name]))]


def ladder_of(names: Iterable[str]) -> list[str]:
    """The rungs of the ladder that were scored, from the standard record down."""
    scored = {"fail", *names}
    return [name for name in LADDER if name in scored]


def needed(conditions: Iterable[str], patterns: Iterable[str]) -> set[str]:
    """The measures that the columns of `patterns` need of the conditions, terms included."""
    names = list(conditions)
    found = [declared(_measure(pattern, name)) for pattern in patterns for name in names]
    shown = [measure for measure in found if measure is not None]
    ratios = [measure.ratio for measure in shown if measure.ratio is not None]
    return {
        *(measure.name for measure in shown),
        *(term for ratio in ratios for term in (ratio.numerator, ratio.denominator)),
        *(f"logprob_{condition}" for measure in shown for condition in measure.conditions),
    }


def records(
    estimates: pd.DataFrame, names: Iterable[str], environment: str, kind: str, labels: Labels
) -> Table:
    """Every way to write the record: G under it, how much that removes, what it costs."""
    return _by_record(
        estimates,
        "records",
        "What each way to write the record leaves of the effect, and what it costs",
        records_of(names),
        RECORD_MEASURES,
        "On the items that were scored under such records; n says how many a record applies to.",
        (environment, kind),
        labels,
    )


def ladder(
    estimates: pd.DataFrame, names: Iterable[str], environment: str, kind: str, labels: Labels
) -> Table:
    """How much of the failed call can stay: from the standard record down to no call at all."""
    return _by_record(
        estimates,
        "ladder",
        "How much of the failed call can stay in the transcript",
        ladder_of(names),
        LADDER_MEASURES,
        "On the items that have every rung.",
        (environment, kind),
        labels,
    )


def _by_record(
    estimates: pd.DataFrame,
    table: str,
    title: str,
    names: Iterable[str],
    patterns: tuple[str, ...],
    items: str,
    place: tuple[str, str],
    labels: Labels,
) -> Table:
    """A row per model and condition, a column per kind of measure."""
    environment, kind = place
    cells = Cells(estimates, environment, labels)
    rows, printed = [], []
    for model, label in cells.models.items():
        for name in names:
            found = [declared(_measure(pattern, name)) for pattern in patterns]
            if not any(each and cells.count(model, each.name) for each in found):
                continue
            entries = [Entry("—") if each is None else cells.entry(model, each) for each in found]
            rows.append((Entry(label), Entry(name, code=True), *entries))
            printed += [each for each in found if each is not None]
    data = cells.data(list({each.name: each for each in printed}.values()))
    own = sorted({each.baseline for name in names if (each := CONDITIONS[name])} - {"pre"})
    notes = [
        "G: log P(a | no attempt) − log P(a | the record so written); below zero it makes the "
        "failed call likelier.",
        "A dash: no item, or no number that could be compared.",
        items,
    ]
    if own:
        notes.append(f"Conditions that rewrite what stands before have {', '.join(own)} for that.")
    return Table(
        file_name(table, environment, kind),
        caption(table, title, environment, kind, labels),
        ("model", "condition", *(HEADS[pattern] for pattern in patterns)),
        tuple(rows),
        data,
        (*notes, *remarks(data)),
    )


def _measure(pattern: str, condition: str) -> str:
    """The name of a condition's measure; G of the standard record has no suffix."""
    name = pattern.format(condition)
    return "G" if name == "G_fail" else name


def wordings(spread: pd.DataFrame, environment: str, kind: str) -> Table:
    """The spread over wordings beside the interval over tasks.

    Args:
        spread: what `spread.wordings` gives, the models labelled.
    """
    rows = tuple(
        (
            Entry(row["model"]),
            Entry(row["condition"], code=True),
            Entry(
                number(row["mean"], "nats"),
                row["mean"],
                f"{_between(row)} n={row['n']}",
            ),
            Entry(f"{number(row['lowest'], 'nats')} to {number(row['highest'], 'nats')}"),
            Entry(number(row["sd"], "nats"), row["sd"]),
            Entry(str(row["wordings"]), row["wordings"]),
        )
        for row in spread.to_dict("records")
    )
    heads = (
        "model",
        "condition",
        "G, standard wording (nats)",
        "lowest and highest mean",
        "standard deviation over wordings",
        "wordings",
    )
    return Table(
        file_name("wordings", environment, kind),
        f"Does the wording make the result? G in several wordings of a condition: {environment}.",
        heads,
        rows,
        spread,
        ("The interval is over tasks, for the standard wording, on the same items as the rest.",),
    )


def overlap(by_overlap: pd.DataFrame, environment: str, kind: str) -> Table:
    """`sem` by how many of the call's words the error repeats.

    Args:
        by_overlap: what `spread.by_overlap` gives, the models labelled.
    """
    rows = tuple(
        (
            Entry(row["model"]),
            Entry(f"{100 * row['overlap_low']:.0f} to {100 * row['overlap_high']:.0f} %"),
            Entry(
                number(row["mean"], "nats"),
                row["mean"],
                f"{_between(row)} n={row['n']}",
                row["ci_low"] > 0 or row["ci_high"] < 0,
            ),
        )
        for row in by_overlap.to_dict("records")
    )
    return Table(
        file_name("overlap", environment, kind),
        f"sem by the share of the call's words that the error repeats: {environment}.",
        ("model", "words of the call in the error", "sem (nats)"),
        rows,
        by_overlap,
        (
            "Errors quote the call and acknowledgements do not, so sem holds some echo; "
            "neut_echo echoes without marking a failure.",
        ),
    )


def _between(row: Mapping[Any, Any]) -> str:
    if math.isnan(row["ci_low"]):
        return "[no interval]"
    return f"[{number(row['ci_low'], 'nats')}, {number(row['ci_high'], 'nats')}]"
