"""Attention over a pack of a token trie, as an attention function of transformers.

What it needs to know travels as the keyword argument `pack_state` of the model's forward, so any
number of engines can live in one process.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from transformers import AttentionInterface

from backfire.scoring.plan import Tile, Trie

NAME = "backfire_trie"


class Workspace:
    """Memory that attention writes over and over: the cache of one path, a score matrix.

    Per layer, the keys and the values of a path, and of a tile after it, are
    `(kv_heads, capacity, size)`; the index of a key of the path is its depth.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._cache: dict[int, tuple[Tensor, Tensor]] = {}
        self._scores = torch.empty(0)

    def cache(self, layer: int, like: Tensor) -> tuple[Tensor, Tensor]:
        """The keys and the values of a layer whose new ones are `like` `(kv_heads, n, size)`."""
        if layer not in self._cache:
            shape = (like.shape[0], self._capacity, like.shape[2])
            self._cache[layer] = like.new_empty(shape), like.new_empty(shape)
        return self._cache[layer]

    def scores(self, like: Tensor, *shape: int) -> Tensor:
        """A matrix to be written; it replaces the last one."""
        if self._scores.numel() < math.prod(shape):
            self._scores = like.new_empty(math.prod(shape))
        return self._scores[: math.prod(shape)].view(shape)


class View(NamedTuple):
    """What the queries `first` to `last` of a pack see of the cache.

    Attributes:
        low, depth, high: they see columns `low` to `high`; their own keys start at `depth`.
        hidden: bool `(queries, h)`, which of the columns from `masked` on are hidden from each.
        source, destination: columns of keys of this tile, and where the path to the next has them.
    """

    first: int
    last: int
    low: int
    depth: int
    high: int
    masked: int
    hidden: Tensor
    source: Tensor
    destination: Tensor


class PackState:
    """The pack in flight: its tiles, seen through full or sliding windows, and the workspace."""

    def __init__(self, trie: Trie, tiles: Sequence[Tile], space: Workspace, device: torch.device):
        self.trie, self.tiles, self.space, self.device = trie, tiles, space, device
        self._views: dict[int | None, list[View]] = {}

    def views(self, window: int | None) -> list[View]:
        """One view per tile, for layers that see the last `window` positions, or all."""
        if window not in self._views:
            self._views[window] = [self._view(tile, window) for tile in self.tiles]
        return self._views[window]

    def _view(self, tile: Tile, window: int | None) -> View:
        depths = torch.from_numpy(self.trie.depths[tile.start : tile.stop])
        limits, kept = torch.from_numpy(tile.limits), torch.from_numpy(tile.kept).long()
        high = tile.depth + len(depths)
        low, masked = 0, int(limits.min())
        if window is not None:
            low = masked = max(0, min(tile.depth, int(depths.min()) - window + 1))
        path = torch.arange(masked, tile.depth)
        hidden = torch.cat([path >= limits[:, None], torch.from_numpy(~tile.family)], dim=1)
        if window is not None:
            hidden |= torch.cat([path, depths]) <= depths[:, None] - window
        kept = kept[depths[kept] != tile.depth + kept]  # the others are where they belong
        origin = self.tiles[0].start
        return View(
            tile.start - origin, tile.stop - origin, low, tile.depth, high, masked,
            *(t.to(self.device) for t in (hidden, tile.depth + kept, depths[kept].long())),
        )  # fmt: skip


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
    are not listed could change the result in a way that is not known here, and raise.
    """
    _, heads, n, size = query.shape
    kv_heads = key.shape[1]
    group = heads // kv_heads
    space = pack_state.space
    all_keys, all_values = space.cache(int(module.layer_idx), key[0])  # type: ignore[arg-type]
    # Row q * group + g of a key-value head: query q, head g of the group.
    queries = query[0].view(kv_heads, group, n, size).transpose(1, 2)
    queries = (queries * (size**-0.5 if scaling is None else scaling)).flatten(1, 2)
    out = value.new_empty(kv_heads, n * group, value.shape[-1])
    for view in pack_state.views(sliding_window):
        own = slice(view.first, view.last)
        rows = slice(view.first * group, view.last * group)
        all_keys[:, view.depth : view.high] = key[0, :, own]
        all_values[:, view.depth : view.high] = value[0, :, own]
        seen = slice(view.low, view.high)
        count, columns = (view.last - view.first) * group, view.high - view.low
        scores = space.scores(queries, kv_heads, count, columns)
        torch.bmm(queries[:, rows], all_keys[:, seen].transpose(1, 2), out=scores)
        if softcap is not None:
            scores.div_(softcap).tanh_().mul_(softcap)
        maskable = scores[..., view.masked - view.low :].view(
            kv_heads, -1, group, view.high - view.masked
        )
        maskable.masked_fill_(view.hidden[:, None], float("-inf"))
        torch.softmax(scores, dim=-1, out=scores)
        torch.bmm(scores, all_values[:, seen], out=out[:, rows])
        if len(view.source):
            for store in (all_keys, all_values):
                store[:, view.destination] = store[:, view.source]
    return out.view(kv_heads, n, group, -1).permute(1, 0, 2, 3).reshape(1, n, heads, -1), None


AttentionInterface.register(NAME, trie_attention)
