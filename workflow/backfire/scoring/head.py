"""What is read off a model's logits, and off its configuration."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from transformers import PreTrainedModel


class NonFiniteLogits(FloatingPointError):
    """The model gave NaN or infinite logits: its scores would mean nothing."""


class Reading(NamedTuple):
    """Of each row of logits: log Σ exp, the argmax (lowest id wins), the top-2 gap."""

    log_total: Tensor  # float32 (rows,)
    argmax: Tensor  # int64 (rows,)
    gap: Tensor  # float32 (rows,)


def read_logits(logits: Tensor) -> Reading:
    """Read `(rows, vocabulary)` logits, in float32.

    A log-probability is a logit minus `log_total`: float32 `log_softmax` over a large vocabulary
    is off by up to 5e-4 nats, this by 6e-6.

    Raises:
        NonFiniteLogits: a row holds NaN or infinity.
    """
    logits = logits.float()
    log_total = torch.logsumexp(logits, dim=1)
    best, argmax = logits.max(dim=1)
    second = logits.scatter(1, argmax[:, None], float("-inf")).amax(dim=1)
    if not bool(torch.isfinite(log_total).all()):
        raise NonFiniteLogits("the model's logits are not finite")
    return Reading(log_total, argmax, best - second)


def window_of(network: PreTrainedModel) -> int:
    """How many positions the model can see."""
    return int(network.config.get_text_config().max_position_embeddings)
