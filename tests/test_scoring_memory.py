"""Memory stays within what was granted, whatever the number and the length of the requests."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from test_scoring import assert_same
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel

from backfire.scoring import Request, reference, score

MIB = 1 << 20


def wide_model() -> PreTrainedModel:
    """One narrow layer under a large vocabulary: scores and logits are what takes memory."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=20_000,
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=1,
        num_attention_heads=4,
        num_key_value_heads=1,
        max_position_embeddings=20_000,
        pad_token_id=0,
    )
    return LlamaForCausalLM(config).eval()


def long_requests(count: int, length: int, sharing: int) -> list[Request]:
    """Contexts of about `length` tokens, `sharing` of which have most of them in common."""
    rng = random.Random(0)
    requests = []
    context: list[int] = []
    for i in range(count):
        if i % sharing == 0:
            context = rng.choices(range(20_000), k=length)
        continuation = rng.choices(range(20_000), k=20)
        requests.append(Request(tuple(context[: length - i % 7]), tuple(continuation)))
    return requests


def growth(count: int, length: int, sharing: int, memory: int) -> int:
    """By how many bytes the process's peak grows while it scores `long_requests`."""
    script = f"""
import resource, torch
from test_scoring_memory import long_requests, wide_model
from backfire.scoring import Request, score
torch.set_num_threads(1)
network, requests = wide_model(), long_requests({count}, {length}, {sharing})
score(network, [Request((1, 2), (3,))])
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
before = peak()
score(network, requests, memory={memory})
print((peak() - before) * 1024)
"""
    here = Path(__file__).parent
    path = f"{here}:{here.parent / 'workflow'}"
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, env={"PYTHONPATH": path}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


@pytest.mark.slow
def test_contexts_of_16k_tokens_equal_the_reference() -> None:
    requests = long_requests(count=3, length=16_000, sharing=3)
    network = wide_model()
    assert_same(score(network, requests, memory=4 * MIB), reference.score(network, requests))


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss is in KiB on Linux alone")
@pytest.mark.parametrize(("count", "length", "sharing"), [(3, 16_000, 3), (1000, 8000, 250)])
def test_peak_memory_is_bounded(count: int, length: int, sharing: int) -> None:
    memory = 16 * MIB
    # Twice the grant for logits and scores; keys and values of one path (16 KiB per thousand);
    # for each token given, its id twice over; for each distinct one, a few words.
    given, distinct = count * length, (count // sharing + 1) * length
    allowed = 2 * memory + 16 * given + 64 * distinct + 24 * MIB
    assert growth(count, length, sharing, memory) < allowed
