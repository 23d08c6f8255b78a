"""Attention over a pack of a token trie, as an attention function of transformers.

The state of a pack travels as the keyword argument `pack_state` of the model's forward, so any
number of engines can live in one process.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor, nn
from transformers import AttentionInterface

from backfire.scoring.plan import Block

NAME = "backfire_trie"


class Chunk(NamedTuple):
    """Queries `first` to `last` of a pack, whose score matrix has a column per depth."""

    first: int
    last: int
    low: int  # the depth of the first column
    high: int  # the depth after the last
    blocks: tuple[Block, ...]
    hidden: Tensor  # bool (queries, columns that hold a key some query must not see)


@dataclass
class PathCache:
    """Keys and values of one path, by layer and depth; each is `(kv_heads, capacity, size)`."""

    capacity: int
    keys: dict[int, Tensor] = field(default_factory=dict)
    values: dict[int, Tensor] = field(default_factory=dict)

    def write(self, layer: int, depths: Tensor, keys: Tensor, values: Tensor) -> None:
        """Store keys and values `(kv_heads, k, size)` at `depths` `(k,)`."""
        for store, new in ((self.keys, keys), (self.values, values)):
            if layer not in store:
                store[layer] = new.new_empty(new.shape[0], self.capacity, new.shape[2])
            store[layer].index_copy_(1, depths, new)


@dataclass
class PackState:
    """What attention needs to know of the pack in flight.

    Attributes:
        blocks: the key ranges of the pack, with their query ranges.
        depths: int64 `(n,)` on the CPU, of each query.
        keep: int64 `(k,)` on the model's device, the offsets to store in `cache`.
        cache: the cached path.
        scores: how many numbers a score matrix may hold.
    """

    blocks: Sequence[Block]
    depths: Tensor
    keep: Tensor
    cache: PathCache
    scores: int
    chunks: dict[tuple[int, int | None], list[Chunk]] = field(default_factory=dict)

    def chunked(self, heads: int, window: int | None) -> list[Chunk]:
        """The pack's queries in chunks whose scores, over all `heads`, fit the budget."""
        key = (heads, window)
        if key not in self.chunks:
            self.chunks[key] = list(self._chunk(heads, window))
        return self.chunks[key]

    def _chunk(self, heads: int, window: int | None) -> Iterator[Chunk]:
        n, deepest = len(self.depths), int(self.depths.max()) + 1
        size = max(1, self.scores // (heads * deepest))
        for first in range(0, n, size):
            last = min(first + size, n)
            depths = self.depths[first:last]
            shallow, high = int(depths.min()), int(depths.max()) + 1
            low = 0 if window is None else max(0, shallow - window + 1)
            column = low if window is not None else shallow + 1
            columns = torch.arange(column, high)
            hidden = columns > depths[:, None]
            if window is not None:
                hidden |= columns <= depths[:, None] - window
            clipped = (_clip(block, first, last, low) for block in self.blocks)
            blocks = tuple(block for block in clipped if block is not None)
            yield Chunk(first, last, low, high, blocks, hidden.to(self.keep.device))


def _clip(block: Block, first: int, last: int, low: int) -> Block | None:
    """The part of a block that concerns some queries and the depths from `low` on, if any."""
    unseen = max(0, low - block.depth)
    start = block.start + unseen
    stop = block.stop if block.cached else min(block.stop, last)
    first, last = max(block.first, first), min(block.last, last)
    if start >= stop or first >= last:
        return None
    return Block(block.cached, start, stop, block.depth + unseen, first, last)


def trie_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    pack_state: PackState,
    scaling: float | None = None,
    dropout: float = 0.0,
    softcap: float | None = None,
    sliding_window: int | None = None,
    position_ids: Tensor | None = None,
    use_cache: bool | None = None,
) -> tuple[Tensor, None]:
    """Exact attention of `query` `(1, heads, n, size)` over the trie.

    The query heads that share a key-value head are rows of one product. Keyword arguments that
    are not listed would change the result in a way that is not known here, and raise.
    """
    _, heads, n, size = query.shape
    kv_heads = key.shape[1]
    group = heads // kv_heads
    layer = int(module.layer_idx)  # type: ignore[arg-type]
    scaling = size**-0.5 if scaling is None else scaling
    # Row q * group + g of a key-value head: query q, head g of the group.
    queries = query[0].view(kv_heads, group, n, size).transpose(1, 2)
    queries = (queries * scaling).reshape(kv_heads, n * group, size)
    keys, values = key[0], value[0]
    cache = pack_state.cache
    out = values.new_zeros(kv_heads, n * group, values.shape[-1])
    for chunk in pack_state.chunked(heads, sliding_window):
        rows, columns = chunk.last - chunk.first, chunk.high - chunk.low
        scores = queries.new_empty(kv_heads, rows * group, columns)
        views = []
        for block in chunk.blocks:
            source = (cache.keys[layer], cache.values[layer]) if block.cached else (keys, values)
            k, v = (tensor[:, block.start : block.stop] for tensor in source)
            inner = slice((block.first - chunk.first) * group, (block.last - chunk.first) * group)
            outer = slice(block.first * group, block.last * group)
            column = block.depth - chunk.low
            part = scores[:, inner, column : column + block.stop - block.start]
            torch.bmm(queries[:, outer], k.transpose(1, 2), out=part)
            views.append((outer, inner, column, v))
        if softcap is not None:
            scores.div_(softcap).tanh_().mul_(softcap)
        masked = scores.view(kv_heads, rows, group, columns)[..., columns - chunk.hidden.shape[1] :]
        masked.masked_fill_(chunk.hidden[:, None], float("-inf"))
        weights = torch.softmax(scores, dim=-1, dtype=torch.float32).to(value.dtype)
        for outer, inner, column, v in views:
            part = weights[:, inner, column : column + v.shape[1]]
            target = out[:, outer]
            torch.baddbmm(target, part, v, out=target)
    if len(pack_state.keep):
        kept = pack_state.keep
        depths = pack_state.depths.to(kept.device)[kept]
        cache.write(layer, depths, keys[:, kept], values[:, kept])
    return out.view(kv_heads, n, group, -1).permute(1, 0, 2, 3).reshape(1, n, heads, -1), None


AttentionInterface.register(NAME, trie_attention)
