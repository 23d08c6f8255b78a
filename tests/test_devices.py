"""Nothing assumes a CPU: what that can be shown by without another device."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from test_scoring import branching_requests
from tiny_models import ARCHITECTURES, tiny_model

from backfire.decoding import Decoder
from backfire.errors import UserError
from backfire.models import card, device_of, dtype_on, load_network
from backfire.scoring import Score, engine, reference, score

# A product of tensors on the CPU and on `meta` raises, as one across devices does.


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_scorer_keeps_to_the_models_device(
    architecture: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    monkeypatch.setattr(
        engine._Results, "read", lambda self, low, high, logits: seen.append(logits)
    )
    requests = branching_requests(seed=4)
    for batch in engine.Engine(tiny_model(architecture, "meta"), pack_tokens=50).run(requests):
        assert batch
    assert len(seen) > 1
    assert {logits.device.type for logits in seen} == {"meta"}


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_decoder_keeps_to_the_models_device(architecture: str) -> None:
    decoder = Decoder(tiny_model(architecture, "meta"), range(10, 20))
    decoder._cache.reserve(3, 40)
    decoder._push(1, range(20, 30), 10)
    tokens, positions = torch.tensor([[5], [6], [7]]), torch.tensor([[12], [20], [15]])
    with torch.inference_mode():
        assert decoder._forward(tokens, positions, slice(0, 3)).device.type == "meta"


def test_auto_takes_what_torch_sees(monkeypatch: pytest.MonkeyPatch) -> None:
    for found, expected in (("cuda", "cuda"), ("mps", "mps"), ("xpu", "cpu"), (None, "cpu")):
        seen = found and SimpleNamespace(type=found)
        monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda seen=seen, **_: seen)
        assert device_of("auto") == expected
        assert device_of("cuda") == "cuda"


def test_the_number_format_goes_by_device() -> None:
    assert dtype_on("cuda", "float16") == dtype_on("cuda", {"cuda": "float16"}) == "float16"
    assert dtype_on("cpu", {"cuda": "float16"}) == "float32"


def test_the_card_says_where_and_in_what_a_model_runs(tiny_model: Path) -> None:
    entry: dict[str, Any] = {"source": "path:x", "dtype": {"cuda": "bfloat16"}}
    said = [card(tiny_model, entry, device) for device in ("cpu", "cuda")]
    assert [(one["device"], one["dtype"]) for one in said] == [
        ("cpu", "float32"),
        ("cuda", "bfloat16"),
    ]
    assert said[1]["weights"] == "bfloat16 weights"


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is one")
def test_a_device_that_is_not_there_is_one_line(tiny_model: Path) -> None:
    with pytest.raises(UserError, match=r"^scoring.device: cuda is asked for and torch sees none"):
        load_network(tiny_model, device="cuda")


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("architecture", ["llama", "gemma2", "gemma3"])
def test_half_precision_is_near(architecture: str, dtype: torch.dtype) -> None:
    import copy

    requests = branching_requests(seed=9)
    exact = reference.score(tiny_model(architecture), requests)
    half = copy.deepcopy(tiny_model(architecture)).to(dtype)
    plain, packed = reference.score(half, requests), score(half, requests)
    for truth, one, other in zip(exact, plain, packed, strict=True):
        assert isinstance(truth, Score) and isinstance(one, Score) and isinstance(other, Score)
        error = np.abs(one.token_logprobs - truth.token_logprobs).max()
        assert np.abs(other.token_logprobs - truth.token_logprobs).max() < 3 * error + 0.2
