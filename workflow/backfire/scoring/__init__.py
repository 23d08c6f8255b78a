"""Teacher-forced log-probabilities of continuations, exact and fast.

    score(network, requests) -> one Score or Refusal per request, in order

`plan` turns requests into token tries and tries into forward passes, `engine` runs them,
`reference` is the plain loop that defines correctness, and `store` keeps what was computed.
Nothing here knows of items or conditions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt


class Request(NamedTuple):
    """Score `continuation_ids` after `context_ids`."""

    context_ids: tuple[int, ...]
    continuation_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Score:
    """The score of one continuation of `n` tokens.

    Attributes:
        token_logprobs: float64 `(n,)`, nats, log P(token | all before it).
        argmax_match: bool `(n,)`, whether the token is the model's argmax there (lowest id wins).
        next_argmax: the argmax that follows the last token, a token id.
        min_gap: the smallest difference between the two largest logits over the `n` positions.
    """

    token_logprobs: npt.NDArray[np.float64]
    argmax_match: npt.NDArray[np.bool_]
    next_argmax: int
    min_gap: float

    @property
    def logprob(self) -> float:
        """log P(continuation | context), nats."""
        return float(self.token_logprobs.sum())

    @property
    def greedy_match(self) -> bool:
        """Whether greedy decoding writes the continuation."""
        return bool(self.argmax_match.all())


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a request has no score; never a number."""

    reason: str
