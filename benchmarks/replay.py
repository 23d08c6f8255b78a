"""The matrix products of the packed engine and nothing else: how fast it could possibly be.

The replay runs the products of every pack, with the same shapes and in the same order, through
one float32 library: torch's default (MKL on x86), oneDNN with weights laid out beforehand, or
NumPy's OpenBLAS. The fastest of them is the measure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from backfire.scoring import Request
from backfire.scoring.engine import Engine
from backfire.scoring.plan import build_trie, packs, tiles

LIBRARIES = ("torch", "oneDNN", "OpenBLAS")


class Shapes(NamedTuple):
    """Of one pack: its tokens, its tiles as (queries, keys), its rows of the head."""

    tokens: int
    tiles: list[tuple[int, int]]
    rows: int


def shapes(engine: Engine, requests: Sequence[Request]) -> list[Shapes]:
    """The shapes of an engine's products on the requests, pack by pack."""
    trie = build_trie(requests)
    found = []
    for start, stop in packs(trie, engine.limits):
        cut = [
            (end - first, int(trie.depths[first]) + end - first)
            for first, end in tiles(trie, start, stop, engine.limits)
        ]
        first, last = np.searchsorted(trie.rows, (start, stop))
        found.append(Shapes(stop - start, cut, int(last - first)))
    return found


def operations(network: PreTrainedModel, packs: Sequence[Shapes]) -> int:
    """Floating-point operations of the products."""
    config = network.config
    layers = [w.numel() for name, w in _weights(network) if name != "lm_head"]
    pairs = sum(n * m for pack in packs for n, m in pack.tiles)
    tokens, rows = sum(p.tokens for p in packs), sum(p.rows for p in packs)
    head = network.get_output_embeddings().weight.numel()
    attention = 2 * config.num_hidden_layers * config.num_attention_heads * _size(config) * pairs
    return 2 * (tokens * sum(layers) + rows * head + attention)


def replay(network: PreTrainedModel, library: str) -> Callable[[Sequence[Shapes]], None]:
    """A function that runs the products of some packs through a library."""
    config = network.config
    kv_heads = config.num_key_value_heads
    group, size = config.num_attention_heads // kv_heads, _size(config)
    linears = [_linear(weight, library) for name, weight in _weights(network) if name != "lm_head"]
    per_layer = len(linears) // config.num_hidden_layers
    head = _linear(network.get_output_embeddings().weight.detach(), library)
    inputs = {w.shape[1]: torch.randn(8192, w.shape[1]) for _, w in _weights(network)}
    queries = torch.randn(kv_heads, 8192 * group, size)
    cache = torch.randn(kv_heads, 32768, size)
    scores = torch.randn(1 << 24)

    def attend(n: int, keys: int) -> None:
        q, k = queries[:, : n * group], cache[:, :keys]
        s = scores[: kv_heads * n * group * keys].view(kv_heads, n * group, keys)
        if library == "OpenBLAS":
            np.matmul(q.numpy(), k.numpy().transpose(0, 2, 1), out=s.numpy())
            np.matmul(s.numpy(), k.numpy())
        else:
            torch.bmm(q, k.transpose(1, 2), out=s)
            torch.bmm(s, k)

    @torch.inference_mode()
    def run(packs: Sequence[Shapes]) -> None:
        for pack in packs:
            for first in range(0, len(linears), per_layer):
                for columns, linear in linears[first : first + per_layer]:
                    linear(inputs[columns][: pack.tokens])
                for n, keys in pack.tiles:
                    attend(n, keys)
            if pack.rows:
                head[1](inputs[head[0]][: pack.rows])

    return run


def _weights(network: PreTrainedModel) -> Iterator[tuple[str, Tensor]]:
    for name, module in network.named_modules():
        if isinstance(module, nn.Linear):
            yield name, module.weight.detach()


def _linear(weight: Tensor, library: str) -> tuple[int, Callable[[Tensor], object]]:
    """The width of a layer's input, and its product."""
    columns = weight.shape[1]
    if library == "torch":
        return columns, lambda x: nn.functional.linear(x, weight)
    if library == "oneDNN":
        packed = torch.ops.mkldnn._reorder_linear_weight(weight, None)
        call = torch.ops.mkldnn._linear_pointwise
        return columns, lambda x: call(x, packed, None, "none", [], "")
    transposed = weight.numpy().T
    return columns, lambda x: np.matmul(x.numpy(), transposed)


def _size(config: Any) -> int:
    return int(
        getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    )
