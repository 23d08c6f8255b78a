"""One model's scores on one environment, looked up by condition and candidate."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.special import logsumexp


class Answers:
    """The scores of one model on one environment, by condition and candidate.

    Every lookup is a float series over items (`index`, item ids), NaN where the item was
    not scored or was refused.
    """

    def __init__(self, scores: pd.DataFrame) -> None:
        keys = ["item_id", "condition", "candidate"]
        twice = scores[scores.duplicated(keys)]
        if len(twice):
            raise ValueError(f"scored twice: {tuple(twice[keys].iloc[0])}")
        self.index = pd.Index(sorted(scores["item_id"].unique()), name="item_id")
        self._scores = scores
        self._rows = {
            key: rows.set_index("item_id")
            for key, rows in scores.groupby(["condition", "candidate"], sort=False)
        }

    def _column(self, name: str, condition: str, candidate: str) -> pd.Series[float]:
        rows = self._rows.get((condition, candidate))
        if rows is None:
            return pd.Series(np.nan, index=self.index)
        column = rows[name].where(rows["logprob"].notna())
        return column.astype("float64").reindex(self.index)

    def logprob(self, condition: str, candidate: str = "failed") -> pd.Series[float]:
        """log P(candidate | condition), nats."""
        return self._column("logprob", condition, candidate)

    def length(self, unit: str, condition: str = "fail") -> pd.Series[float]:
        """Length of the failed action, `n_tokens` or `n_bytes`, or of its `context_tokens`."""
        return self._column(unit, condition, "failed")

    def overlap(self, condition: str) -> pd.Series[float]:
        """The share of the failed action's words that stand in the last message before it."""
        return self._column("overlap", condition, "failed")

    def greedy(self, condition: str, *, stop: bool) -> pd.Series[float]:
        """1 where greedy decoding writes the failed action (and then ends its turn), else 0."""
        match = self._column("greedy_match", condition, "failed")
        return match * self._column("greedy_stop", condition, "failed") if stop else match

    @cached_property
    def _choices(self) -> pd.DataFrame:
        columns = ("condition", "item_id", "candidate", "logprob", "token_ids")
        asked: dict[tuple[str, str], dict[str, Answer | None]] = {}
        for condition, item, candidate, logprob, ids in zip(
            *(self._scores[column] for column in columns), strict=True
        ):
            answer = None if pd.isna(logprob) else Answer(float(logprob), tuple(ids))
            asked.setdefault((condition, item), {})[candidate] = answer
        found = {
            key: choice
            for key, answers in asked.items()
            if (choice := forced_choice(answers)) is not None
        }
        index = pd.MultiIndex.from_tuples(found, names=["condition", "item_id"])
        return pd.DataFrame(list(found.values()), index=index, columns=Choice._fields)

    def choice(self, quantity: str, condition: str) -> pd.Series[float]:
        """A field of the `Choice` among four candidates."""
        found = self._choices[self._choices.index.get_level_values("condition") == condition]
        return found.droplevel("condition")[quantity].reindex(self.index)


class Answer(NamedTuple):
    """The log-probability of one candidate (nats), and its token ids."""

    logprob: float
    token_ids: tuple[int, ...]


class Choice(NamedTuple):
    """A forced choice among the failed action, gold and two distractors.

    `probability` of the failed action, its `log_odds` against the other three (nats), and
    the `mass` that the model gives to all four.
    """

    probability: float
    log_odds: float
    mass: float


def forced_choice(answers: Mapping[str, Answer | None]) -> Choice | None:
    """The choice of one item under one condition, from the answers by candidate, None if refused.

    The first two distractors stand for all, so that every condition offers the same four. No
    choice where one of the four is absent or refused, or where the tokens of one begin with
    all the tokens of another: then the probability of the longer is part of the shorter's.
    """
    distractors = [name for name in answers if name.startswith("distractor_")]
    distractors.sort(key=lambda name: int(name.removeprefix("distractor_")))
    found = [answers.get(name) for name in ("failed", "gold", *distractors[:2])]
    four = [answer for answer in found if answer is not None]
    if len(four) < 4:
        return None
    ids = sorted(answer.token_ids for answer in four)
    if any(longer[: len(shorter)] == shorter for shorter, longer in pairwise(ids)):
        return None
    logprobs = np.array([answer.logprob for answer in four])
    mass, others = logsumexp(logprobs), logsumexp(logprobs[1:])
    probability = np.exp(logprobs[0] - mass)
    return Choice(float(probability), float(logprobs[0] - others), float(np.exp(mass)))
