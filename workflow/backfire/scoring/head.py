"""What is read off a model's logits, and off its configuration."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from transformers import PreTrainedModel


class NonFiniteLogits(FloatingPointError):
    """The model gave NaN or infinite logits: its scores would mean nothing."""


class Reading(NamedTuple):
    """Log-probabilities of chosen tokens; of each row, the argmax and the top-2 gap."""

    logprobs: Tensor  # float32 (chosen,), nats
    argmax: Tensor  # int64 (rows,), the lowest of equals
    gap: Tensor  # float32 (rows,)


def read_logits(logits: Tensor, rows: Tensor, tokens: Tensor) -> Reading:
    """Read `(rows, vocabulary)` logits, overwriting them; `tokens` are asked for at `rows`.

    A log-probability is a logit minus log Σ exp, both in float32: float32 `log_softmax` over a
    large vocabulary is off by up to 5e-4 nats, this by 6e-6.

    Raises:
        NonFiniteLogits: a row holds NaN or infinity, or a chosen logit does.
    """
    logits = logits.float()
    chosen = logits[rows, tokens]
    best, argmax = logits.max(dim=1)
    others = logits.scatter_(1, argmax[:, None], float("-inf"))
    gap = best - others.amax(dim=1)
    log_total = best + others.sub_(best[:, None]).exp_().sum(dim=1).log1p()
    logprobs = chosen - log_total[rows]
    if not bool(torch.isfinite(log_total).all() and torch.isfinite(logprobs).all()):
        raise NonFiniteLogits("the model's logits are not finite")
    return Reading(logprobs, argmax, gap)


def window_of(network: PreTrainedModel) -> int:
    """How many positions the model can see."""
    return int(network.config.get_text_config().max_position_embeddings)
