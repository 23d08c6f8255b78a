"""The measures of one way to write the record, and those that compare a few of them."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from backfire.answers import Answers
from backfire.conditions import CONDITIONS, Condition
from backfire.conditions.padding import CLOSE
from backfire.terms import Measure, Ratio, Value, change, decomposition, paired, per_token

NO_RECORD = frozenset({"reference", "control", "wording"})
"""Kinds of conditions that serve the measurement, and are no way to write a record."""


def is_record(condition: Condition) -> bool:
    """Whether a harness might write its records so."""
    return condition.kind not in NO_RECORD


def of_condition(condition: Condition) -> Iterator[Measure]:
    """The measures of one condition, against its baseline and against the standard record."""
    name, base = condition.name, condition.baseline
    yield Measure(
        f"logprob_{name}",
        "nats",
        f"log P(a | {name})",
        (name,),
        signed=False,
        value=lambda answers: answers.logprob(name),
    )
    if condition.kind != "wording":
        yield from _greedy(name)
        if name != "pre":
            yield _tokens(f"tokens_{name}", name, base)
        if name not in ("pre", "fail") and is_record(condition):
            yield _tokens(f"extra_tokens_{name}", name, "fail")
    if condition.gold or condition.every_candidate:
        yield _over_gold(name)
    if name not in ("pre", "fail"):
        yield from _contrasts(condition)


def _contrasts(condition: Condition) -> Iterator[Measure]:
    name, base = condition.name, condition.baseline
    gain = change(base, name)
    # A call in another notation is another string: its probability compares with its own alone.
    same_string = condition.action is None
    if same_string or (base in CONDITIONS and CONDITIONS[base].action is not None):
        formula = f"log P(a | {base}) − log P(a | {name})"
        yield Measure(f"G_{name}", "nats", formula, (base, name), value=gain)
        if is_record(condition):
            formula = f"G_{name} / number of tokens of a"
            value = per_token(gain, name)
            yield Measure(f"G_{name}_per_token", "nats/token", formula, (base, name), value=value)
    if same_string and condition.kind != "wording":
        delta = change(name, "fail")
        formula = f"log P(a | {name}) − log P(a | fail)"
        yield Measure(f"delta_{name}", "nats", formula, ("fail", name), value=delta)
        if is_record(condition):
            yield Measure(
                f"delta_{name}_per_token",
                "nats/token",
                f"delta_{name} / number of tokens of a",
                ("fail", name),
                value=per_token(delta, name),
            )
    if same_string and base == "pre" and is_record(condition):
        yield Measure(
            f"{name}_removed",
            "share",
            f"1 − sum of G_{name} / sum of G",
            ("pre", "fail", name),
            signed=False,
            ratio=Ratio(f"delta_{name}", "G", 1.0),
        )


def _greedy(name: str) -> Iterator[Measure]:
    what = f"greedy decoding after {name} writes a"

    def value(stop: bool) -> Value:
        return lambda answers: answers.greedy(name, stop=stop)

    for suffix, formula, stop in (
        ("", f"{what}; what follows is ignored", False),
        ("_stop", f"{what} and then ends the turn", True),
    ):
        measure = f"greedy_repeat_{name}{suffix}"
        yield Measure(measure, "proportion", formula, (name,), False, value(stop))


def _tokens(measure: str, name: str, base: str) -> Measure:
    return Measure(
        measure,
        "tokens",
        f"length of the context of {name} − that of {base}",
        (base, name),
        signed=False,
        value=lambda answers: (
            answers.length("context_tokens", name) - answers.length("context_tokens", base)
        ),
    )


def _over_gold(name: str) -> Measure:
    return Measure(
        f"failed_over_gold_{name}",
        "nats",
        f"log P(a | {name}) − log P(gold | {name})",
        (name,),
        value=lambda answers: answers.logprob(name) - answers.logprob(name, "gold"),
    )


def _mismatch(answers: Answers) -> pd.Series[float]:
    return answers.length("context_tokens", "neut_pad") - answers.length("context_tokens")


def _overlap(condition: str) -> Measure:
    return Measure(
        f"overlap_{condition}",
        "fraction",
        f"share of the words of a that stand in the observation of {condition}",
        (condition,),
        signed=False,
        value=lambda answers: answers.overlap(condition),
    )


def controls() -> Iterator[Measure]:
    """The measures that answer an objection by setting a few conditions side by side."""
    yield from decomposition("neut_pad", "copy_pad", "sem_pad")
    yield Measure(
        "pad_mismatch",
        "tokens",
        "length of the context of neut_pad − that of fail",
        ("fail", "neut_pad"),
        value=_mismatch,
    )
    yield Measure(
        "pad_matched",
        "proportion",
        f"pad_mismatch is at most {CLOSE} tokens",
        ("fail", "neut_pad"),
        signed=False,
        value=lambda answers: (
            (_mismatch(answers).abs() <= CLOSE).astype("float64").where(_mismatch(answers).notna())
        ),
    )
    yield from decomposition("neut_echo", "copy_echo", "sem_echo")
    yield paired("copy_unrelated", "neut_unrelated", "pre", "pre", "neut")
    yield paired("copy_specific", "neut", "neut_unrelated", "pre")
    yield from map(_overlap, ("fail", "neut_echo"))
