"""What is measured on each item, and how each measure follows from the scores.

A measure is declared once, in `measures_for`; tables, comparisons and docs read its unit,
formula and range from there. Items lacking a term of a measure have no row for it.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

import numpy as np
import pandas as pd
import pyarrow as pa

from backfire.answers import Answers
from backfire.conditions import CONDITIONS
from backfire.record_measures import controls, of_condition
from backfire.terms import Measure, Ratio, Value, change, complete, decomposition, per_token

MEASURE_SCHEMA = pa.schema(
    [
        pa.field("item_id", pa.string(), nullable=False),
        pa.field("measure", pa.string(), nullable=False),
        pa.field("value", pa.float64(), nullable=False),
        pa.field("task_id", pa.string(), nullable=False),
        pa.field("template", pa.string()),
        pa.field("step", pa.int32()),
        pa.field("operator", pa.string()),
        pa.field("error_family", pa.string()),
    ]
)

ITEM_COLUMNS = ("task_id", "template", "step", "operator", "error_family")


def _gain(answers: Answers) -> pd.Series[float]:
    return answers.logprob("pre") - answers.logprob("fail")


def _repeat_choice(quantity: str, condition: str) -> Value:
    """The quantity on items that have it under pre and fail, so that the shift is a difference."""

    def value(answers: Answers) -> pd.Series[float]:
        both = (answers.choice(quantity, "pre") + answers.choice(quantity, "fail")).notna()
        return answers.choice(quantity, condition).where(both)

    return value


def _choice_measures(conditions: Iterable[str]) -> list[Measure]:
    kinds = (
        ("p_repeat", "probability", "probability", False, "P(a) / sum of P over four candidates"),
        ("log_odds", "log_odds", "nats", True, "log P(a) − log of the sum of P of the other three"),
        ("candidate_mass", "mass", "mass", False, "sum of P over the four candidates"),
    )
    found = []
    for name, quantity, unit, signed, formula in kinds:
        for condition in conditions:
            needs = tuple(dict.fromkeys(("pre", "fail", condition)))
            value = _repeat_choice(quantity, condition)
            text = f"{formula}, after {condition}"
            found.append(Measure(f"{name}_{condition}", unit, text, needs, signed, value))
        if quantity != "mass":
            shift = _choice_shift(quantity)
            text = f"{name}_fail − {name}_pre"
            found.append(Measure(f"{name}_shift", unit, text, ("pre", "fail"), value=shift))
    return found


def _choice_shift(quantity: str) -> Value:
    return lambda answers: answers.choice(quantity, "fail") - answers.choice(quantity, "pre")


def measures_for(conditions: Iterable[str]) -> dict[str, Measure]:
    """The measures that the given conditions allow, by name, in the order of the tables.

    Raises:
        ValueError: a condition is not registered.
    """
    available = sorted(set(conditions), key=list(CONDITIONS).index)
    core = ("pre", "fail")
    found = [
        Measure("G", "nats", "log P(a | pre) − log P(a | fail)", core, value=_gain),
        Measure(
            "G_decomposed",
            "nats",
            "G on the items of the decomposition, those with pre, fail and neut",
            (*core, "neut"),
            value=complete(_gain, *core, "neut"),
        ),
        Measure(
            "G_per_token",
            "nats/token",
            "G / number of tokens of a",
            core,
            value=per_token(_gain, "fail"),
        ),
        Measure(
            "G_per_byte",
            "nats/byte",
            "G / number of UTF-8 bytes of a",
            core,
            value=lambda answers: _gain(answers) / answers.length("n_bytes"),
        ),
        Measure(
            "G_negative",
            "proportion",
            "G < 0",
            core,
            signed=False,
            value=lambda answers: (
                (_gain(answers) < 0).astype("float64").where(_gain(answers).notna())
            ),
        ),
        *decomposition("neut", "copy", "sem"),
        *decomposition("succ", "copy_succ", "polarity"),
        *controls(),
        Measure(
            "repair",
            "nats",
            "log P(gold | fail) − log P(gold | pre)",
            core,
            value=change("fail", "pre", "gold"),
        ),
        Measure(
            "margin_shift",
            "nats",
            "change of log P(gold) − log P(a), fail minus pre",
            core,
            value=lambda answers: change("fail", "pre", "gold")(answers) + _gain(answers),
        ),
        *_choice_measures([name for name in available if CONDITIONS[name].every_candidate]),
        *(measure for name in available for measure in of_condition(CONDITIONS[name])),
        Measure(
            "form_share",
            "share",
            "sum of copy / sum of −G; not a share where sem is negative",
            (*core, "neut"),
            signed=False,
            ratio=Ratio("copy", "G", -1.0),
        ),
    ]
    return {measure.name: measure for measure in found if set(measure.conditions) <= set(available)}


def find(name: str) -> Measure:
    """The declared measure of that name.

    Raises:
        KeyError: no registered condition gives a measure of that name.
    """
    return _declared(tuple(CONDITIONS))[name]


def declared(name: str) -> Measure | None:
    """The declared measure of that name, None where no registered condition gives one."""
    return _declared(tuple(CONDITIONS)).get(name)


@cache
def _declared(conditions: tuple[str, ...]) -> dict[str, Measure]:
    return measures_for(conditions)


def measure(scores: pd.DataFrame, items: pd.DataFrame) -> pd.DataFrame:
    """Every measure on every item that has its terms, a long table of `MEASURE_SCHEMA`.

    Args:
        scores: rows of `scores.SCORE_SCHEMA`, one model on one environment, all probes together.
        items: one row per drawn item, with `item_id` and `ITEM_COLUMNS`.

    Raises:
        ValueError: an item has two scores of a candidate under a condition, a score is not
            finite, or its item is not among `items`.
    """
    unknown = set(scores["item_id"]) - set(items["item_id"])
    if unknown:
        raise ValueError(
            f"{len(unknown)} scored items are not among the drawn: {min(unknown)}, ..."
        )
    if np.isinf(scores["logprob"].to_numpy("float64")).any():
        raise ValueError("a score is not finite")
    answers = Answers(scores)
    columns = {
        name: measure.value(answers)
        for name, measure in measures_for(scores["condition"].unique()).items()
        if measure.value is not None
    }
    wide = pd.DataFrame(columns, answers.index, pd.Index(columns, dtype="str"))
    long = wide.melt(var_name="measure", value_name="value", ignore_index=False).dropna()
    facts = items[["item_id", *ITEM_COLUMNS]]
    return long.reset_index().merge(facts, on="item_id", validate="many_to_one")[
        list(MEASURE_SCHEMA.names)
    ]


def refusals(scores: pd.DataFrame) -> pd.DataFrame:
    """What the scorer refused: `condition candidate refused n`, one row per kind of refusal."""
    keys = ["condition", "candidate", "refused"]
    refused = scores[scores["logprob"].isna()]
    return refused.groupby(keys, as_index=False).size().rename(columns={"size": "n"})
