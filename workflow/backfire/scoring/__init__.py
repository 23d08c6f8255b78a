"""Teacher-forced log-probabilities of continuations, exact and fast.

    score(network, requests) -> one Score or Refusal per request, in order

`plan` turns requests into token tries and tries into forward passes, `engine` runs them,
`reference` is the plain loop that defines correctness, and `store` keeps what was computed.
Nothing here knows of items or conditions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from transformers import PreTrainedModel


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


def score(
    network: PreTrainedModel, requests: Sequence[Request], **options: Any
) -> list[Score | Refusal]:
    """The score or refusal of each request, in order.

    Args:
        network: a causal language model of transformers in eval mode, on any device.
        requests: in any order, repeated or not; what they share is computed once.
        options: for `engine.Engine`.

    Raises:
        head.NonFiniteLogits: the model gave NaN or infinite logits.
        UserError: the model's architecture is not supported.
    """
    # Here, so that the types above can be had without torch.
    from backfire.scoring.engine import Engine

    results: dict[int, Score | Refusal] = {}
    for batch in Engine(network, **options).run(requests):
        results.update(batch)
    return [results[i] for i in range(len(requests))]
