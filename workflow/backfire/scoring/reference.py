"""The plain loop that defines what a score is: one full forward per request."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from transformers import PreTrainedModel

from backfire.scoring import Refusal, Request, Score
from backfire.scoring.head import read_logits, window_of
from backfire.scoring.plan import refusal


@torch.inference_mode()
def score(network: PreTrainedModel, requests: Sequence[Request]) -> list[Score | Refusal]:
    """Score each request alone; the arguments and results of `backfire.scoring.score`."""
    window = window_of(network)
    return [refusal(request, window) or _score(network, request) for request in requests]


def _score(network: PreTrainedModel, request: Request) -> Score:
    n = len(request.continuation_ids)
    ids = torch.tensor([request.context_ids + request.continuation_ids], device=network.device)
    # context:      c0 c1 ... cm | a0 a1 ... an-1
    # logits kept:            z0 | z1 z2 ... zn     z0 predicts a0, zn what follows the last token
    logits: Tensor = network(ids, use_cache=False, logits_to_keep=n + 1).logits[0]
    targets = ids[0, -n:]
    reading = read_logits(logits, torch.arange(n, device=logits.device), targets)
    return Score(
        token_logprobs=reading.logprobs.cpu().double().numpy(),
        argmax_match=(reading.argmax[:n] == targets).cpu().numpy(),
        next_argmax=int(reading.argmax[n]),
        min_gap=float(reading.gap[:n].min()),
    )
