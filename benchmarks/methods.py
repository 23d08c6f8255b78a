"""Ways to score the same requests, each with all of its costs once the model is loaded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any

import numpy as np
import torch
from transformers import DynamicCache, PreTrainedModel

from backfire.scoring import Refusal, Request, Score, reference
from backfire.scoring.engine import Engine

Method = Callable[[Sequence[Request]], list[float]]
"""Requests to the log-probability of each continuation, nats."""


def packed(network: PreTrainedModel) -> Method:
    """This project's engine."""
    engine = Engine(network)

    def run(requests: Sequence[Request]) -> list[float]:
        results = dict(chain.from_iterable(engine.run(requests)))
        return [_value(results[i]) for i in range(len(requests))]

    return run


def naive(network: PreTrainedModel) -> Method:
    """One full forward per request."""
    return lambda requests: [_value(result) for result in reference.score(network, requests)]


def prefix_cache(network: PreTrainedModel) -> Method:
    """The published study's way: one cache, cropped to the longest common prefix, pushed on.

    Requests come in the study's order, in which the candidates of a prompt follow each other.
    """

    @torch.inference_mode()
    def run(requests: Sequence[Request]) -> list[float]:
        cache = DynamicCache(config=network.config)
        held: tuple[int, ...] = ()
        last_logits = torch.empty(0)
        values = []
        for context, continuation in requests:
            if context != held:
                shared = _shared_prefix(held, context[:-1])
                _crop(cache, shared)
                ids = torch.tensor([context[shared:]])
                last_logits = network(ids, cache=cache, logits_to_keep=1).logits[0]
                held = context
            logits = last_logits
            if len(continuation) > 1:
                more = network(torch.tensor([continuation[:-1]]), cache=cache).logits[0]
                logits = torch.cat([last_logits, more])
                _crop(cache, len(context))
            chosen = logits.gather(1, torch.tensor(continuation)[:, None])[:, 0]
            values.append(float((chosen - logits.logsumexp(1)).double().sum()))
        return values

    return run


def lm_eval(network: PreTrainedModel, tokenizer: Any, batch_size: int = 1) -> Method:
    """EleutherAI's lm-evaluation-harness, given token ids so that it scores the same tokens."""
    from lm_eval.models.huggingface import HFLM

    model = HFLM(pretrained=network, tokenizer=tokenizer, batch_size=batch_size)

    def run(requests: Sequence[Request]) -> list[float]:
        asked = [
            (("", ""), list(context), list(continuation)) for context, continuation in requests
        ]
        return [value for value, _ in model._loglikelihood_tokens(asked, disable_tqdm=True)]

    return run


def minicons(network: PreTrainedModel, tokenizer: Any, batch_size: int = 1) -> Method:
    """minicons, which takes text: it is given the decoded tokens, and may split them otherwise."""
    from minicons.scorer import IncrementalLMScorer

    scorer = IncrementalLMScorer(network, tokenizer=tokenizer, device="cpu")

    def run(requests: Sequence[Request]) -> list[float]:
        values: list[float] = []
        for first in range(0, len(requests), batch_size):
            batch = requests[first : first + batch_size]
            prefixes, stimuli = (tokenizer.batch_decode(ids) for ids in zip(*batch, strict=True))
            values += scorer.conditional_score(
                prefixes, stimuli, separator="", reduction=lambda x: x.sum().item()
            )
        return values

    return run


def tokens_pushed(name: str, requests: Sequence[Request]) -> int:
    """How many tokens a method pushes through the model's layers."""
    if name == "packed":
        sequences = [context + continuation for context, continuation in requests]
        order = sorted(sequences)
        shared = sum(map(_shared_prefix, order, order[1:]))
        return sum(map(len, sequences)) - shared
    if name != "prefix cache":
        return sum(len(context) + len(continuation) - 1 for context, continuation in requests)
    total, held = 0, ()
    for context, continuation in requests:
        if context != held:
            total += len(context) - _shared_prefix(held, context[:-1])
            held = context
        total += len(continuation) - 1
    return total


def _value(result: Score | Refusal) -> float:
    if isinstance(result, Refusal):
        raise ValueError(result.reason)
    return result.logprob


def _shared_prefix(left: Sequence[int], right: Sequence[int]) -> int:
    n = min(len(left), len(right))
    differ = np.array(left[:n]) != np.array(right[:n])
    return int(differ.argmax()) if differ.any() else n


def _crop(cache: DynamicCache, length: int) -> None:
    excess = cache.get_seq_length() - length
    if excess > 0:
        cache.crop(-excess)  # a negative count drops tokens; 0 would do nothing
