"""Attention for rows that are decoded together, each at a position of its own.

Keys and values lie by position: those of the common prefix once, those after it in a slot for
each row. What lies in a slot beyond a row's position is never seen, so a row is cut back by
writing over it. Layers with a sliding window keep all their keys and hide the old ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from transformers import AttentionInterface

NAME = "backfire_rows"

_GROWTH = 128
"""Capacity grows in such steps, in positions."""


class _Layer(NamedTuple):
    """Keys and values: of the prefix `(kv_heads, prefix, size)`, and of the slots
    `(slots, kv_heads, capacity, size)`."""

    prefix: tuple[Tensor, Tensor]
    tails: tuple[Tensor, Tensor]


class RowCache:
    """The keys and values of all layers.

    Args:
        prefix: the length of the common prefix, in tokens.
    """

    def __init__(self, prefix: int) -> None:
        self.prefix = prefix
        self.slots: list[int] = []
        """The slot of each row. Rows in use hold the first slots, so that one slice has them."""
        self._capacity = 0
        self._layers: dict[int, _Layer] = {}

    def reserve(self, rows: int, positions: int) -> None:
        """Room for so many rows, and positions after the prefix."""
        self.slots += range(len(self.slots), rows)
        if positions > self._capacity:
            self._capacity = -(-positions // _GROWTH) * _GROWTH
        for number, layer in self._layers.items():
            self._layers[number] = self._fit(layer)

    def layer(self, number: int, like: Tensor) -> _Layer:
        """The keys and values of a layer whose new keys are `like` `(rows, kv_heads, n, size)`."""
        if number not in self._layers:
            _, heads, _, size = like.shape
            # Zeros, for what is hidden is multiplied by zero, and must be finite.
            first = [like.new_zeros(heads, self.prefix, size) for _ in range(2)]
            rest = [like.new_zeros(0, heads, 0, size) for _ in range(2)]
            layer = _Layer((first[0], first[1]), (rest[0], rest[1]))
            self._layers[number] = self._fit(layer)
        return self._layers[number]

    def _fit(self, layer: _Layer) -> _Layer:
        slots, heads, capacity, size = layer.tails[0].shape
        if slots >= len(self.slots) and capacity >= self._capacity:
            return layer
        keys, values = (old.new_zeros(len(self.slots), heads, self._capacity, size)
                        for old in layer.tails)  # fmt: skip
        for new, old in zip((keys, values), layer.tails, strict=True):
            new[:slots, :, :capacity] = old
        return layer._replace(tails=(keys, values))

    def copy(self, source: int, target: int, positions: int) -> None:
        """Give a row the first positions after the prefix of another."""
        origin, destination = self.slots[source], self.slots[target]
        for layer in self._layers.values():
            for tail in layer.tails:
                tail[destination, :, :positions] = tail[origin, :, :positions]

    def bring_forward(self, rows: Sequence[int]) -> None:
        """Put the rows into the first slots, in order."""
        holders = {slot: row for row, slot in enumerate(self.slots)}
        for slot, row in enumerate(rows):
            old = self.slots[row]
            if old == slot:
                continue
            for layer in self._layers.values():
                for tail in layer.tails:
                    tail[[slot, old]] = tail[[old, slot]]
            other = holders[slot]
            self.slots[row], self.slots[other] = slot, old
            holders[slot], holders[old] = row, other


class Rows:
    """One forward pass: which slots it is about, and where its tokens stand.

    Args:
        slots: the slots, one for each row of the batch; None for the prefix itself.
        positions: `(rows, n)` on the CPU, in a row one after the other.
        device: where the network is.
    """

    def __init__(
        self, cache: RowCache, slots: slice | None, positions: Tensor, device: torch.device
    ) -> None:
        self.cache, self.slots = cache, slots
        # Read here, once, and not from the device in every layer.
        self.first, self.end = int(positions[0, 0]), int(positions.max()) + 1
        self.positions = positions.to(device)
        self._hidden: dict[int | None, Tensor] = {}

    def hidden(self, window: int | None) -> Tensor:
        """`(rows, n, end)`: which keys each token does not see, in layers with such a window."""
        if window not in self._hidden:
            key = torch.arange(self.end, device=self.positions.device)
            query = self.positions[..., None]
            hidden = key > query
            if window is not None:
                hidden |= key <= query - window
            self._hidden[window] = hidden
        return self._hidden[window]


def row_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    row_state: Rows,
    scaling: float | None = None,
    dropout: float = 0.0,
    softcap: float | None = None,
    sliding_window: int | None = None,
    position_ids: Tensor | None = None,
    use_cache: bool | None = None,
) -> tuple[Tensor, None]:
    """Exact attention of `query` `(rows, heads, n, size)`, which enters its keys first.

    Keyword arguments that are not listed could change the result in a way that is not known
    here, and raise.
    """
    rows, heads, n, size = query.shape
    kv_heads = key.shape[1]
    group = heads // kv_heads
    cache, slots = row_state.cache, row_state.slots
    prefix, tails = cache.layer(int(module.layer_idx), key)  # type: ignore[arg-type]
    first = row_state.first
    if slots is None:
        for store, new in zip(prefix, (key, value), strict=True):
            store[:, first : first + n] = new[0]
        shared, own = min(cache.prefix, row_state.end), 0
    else:
        shared, own = cache.prefix, row_state.end - cache.prefix
        tails = (tails[0][slots], tails[1][slots])
        where = row_state.positions - cache.prefix
        which = torch.arange(rows, device=where.device)[:, None]
        for store, new in zip(tails, (key, value), strict=True):
            if rows == 1:
                store[0, :, first - cache.prefix : first - cache.prefix + n] = new[0]
            else:
                store[which, :, where] = new.transpose(1, 2)
    queries = query * (size**-0.5 if scaling is None else scaling)
    # Row (r * group + g) * n + i of a key-value head: row r, head g of the group, token i.
    grouped = queries.reshape(rows, kv_heads, group * n, size)
    together = grouped.transpose(0, 1).reshape(kv_heads, rows * group * n, size)
    scores = (together @ prefix[0][:, :shared].transpose(1, 2)).view(
        kv_heads, rows, group * n, shared
    ).transpose(0, 1)  # fmt: skip
    if own:
        flat = grouped.reshape(rows * kv_heads, group * n, size)
        after = flat @ tails[0].flatten(0, 1)[:, :own].transpose(1, 2)
        scores = torch.cat([scores, after.view(rows, kv_heads, group * n, own)], dim=-1)
    if softcap is not None:
        scores = torch.tanh(scores / softcap) * softcap
    hidden = row_state.hidden(sliding_window)[:, None, None]
    split = scores.view(rows, kv_heads, group, n, shared + own)
    weights = split.masked_fill(hidden, float("-inf")).softmax(dim=-1)
    weights = weights.view(rows, kv_heads, group * n, shared + own)
    common = weights[..., :shared].transpose(0, 1).reshape(kv_heads, rows * group * n, shared)
    out = (common @ prefix[1][:, :shared]).view(kv_heads, rows, group * n, -1).transpose(0, 1)
    if own:
        flat = weights[..., shared:].reshape(rows * kv_heads, group * n, own)
        after = flat @ tails[1].flatten(0, 1)[:, :own]
        out = out + after.view(rows, kv_heads, group * n, -1)
    heads_out = out.reshape(rows, heads, n, -1).transpose(1, 2).contiguous()
    return heads_out, None


AttentionInterface.register(NAME, row_attention)
