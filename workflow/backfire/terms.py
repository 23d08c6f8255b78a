"""What a measure is, and the terms that measures are made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pandas as pd

from backfire.answers import Answers

Value = Callable[[Answers], "pd.Series[float]"]
"""From answers to one value per item, NaN where a term is absent."""


@dataclass(frozen=True)
class Ratio:
    """`scale` x sum of one measure / sum of another, over the items that have both."""

    numerator: str
    denominator: str
    scale: float


@dataclass(frozen=True)
class Measure:
    """One measure.

    Attributes:
        unit: `nats`, `nats/token`, `nats/byte`, `probability`, `proportion` (of items, from 0/1
            values), `mass` (a probability, often tiny), `share` (a ratio of sums), `fraction` (of
            one item's words) or `tokens`.
        formula: the definition in words; a is the failed action, P(a | c) its probability
            after the context that condition c writes.
        conditions: the conditions it needs.
        signed: whether it can have either sign, so that an interval excluding zero says something.
        value: from answers to one value per item, NaN where absent; None for a ratio of sums.
        ratio: for a ratio of sums, what is summed.
    """

    name: str
    unit: str
    formula: str
    conditions: tuple[str, ...]
    signed: bool = True
    value: Value | None = None
    ratio: Ratio | None = None


def change(after: str, before: str, candidate: str = "failed") -> Value:
    """log P(candidate | after) − log P(candidate | before), nats."""
    return lambda answers: answers.logprob(after, candidate) - answers.logprob(before, candidate)


def per_token(term: Value, condition: str) -> Value:
    """A term over the number of tokens of the failed action, as written under a condition."""
    return lambda answers: term(answers) / answers.length("n_tokens", condition)


def complete(term: Value, *conditions: str) -> Value:
    """The term on items whose failed action has a score under each of the conditions."""

    def value(answers: Answers) -> pd.Series[float]:
        scored = [answers.logprob(condition).notna() for condition in conditions]
        return term(answers).where(pd.concat(scored, axis=1).all(axis=1))

    return value


def paired(name: str, after: str, before: str, *others: str) -> Measure:
    """The measure log P(a | after) − log P(a | before), on items that have the others too."""
    needs = tuple(dict.fromkeys((*others, before, after)))
    formula = f"log P(a | {after}) − log P(a | {before})"
    return Measure(name, "nats", formula, needs, value=complete(change(after, before), *needs))


def decomposition(reference: str, copy: str, sem: str) -> list[Measure]:
    """The terms of -G = copy + sem, on items that have all of pre, fail and `reference`."""
    return [
        paired(copy, reference, "pre", "pre", "fail"),
        paired(sem, "fail", reference, "pre", "fail"),
    ]
