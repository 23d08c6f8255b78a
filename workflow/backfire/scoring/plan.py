"""From requests to a token trie, and from the trie to forward passes.

The requests are sorted by their tokens, so that each one only adds to the trie what it does not
share with the one before it, and the nodes, numbered as they are added, stand in preorder. Then
whatever the nodes of a range attend to outside of it lies on one path, the ancestors of its first
node. The plan cuts the nodes into ranges twice:

- A pack is pushed through the layers in one forward pass. Every node is in one pack, so each
  distinct (prefix, token) is computed once, however the cuts fall.
- A tile, within a pack, is what attention works on: its queries see the keys of the path and of
  the tile itself, which lie side by side in a cache that never holds more than one path.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from backfire.scoring import Refusal, Request

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Trie:
    """The distinct (prefix, token) pairs of some requests, `n` nodes in preorder.

    Attributes:
        tokens: `(n,)`, the token of each node.
        depths: `(n,)`, its position in the sequence, 0 for a first token.
        parents: `(n,)`, the node before it, -1 for a first token.
        targets: `(t,)`, the nodes that are scored, ordered by their parents.
        rows: bool `(n,)`, the nodes whose next token is asked for: what the head computes.
        spans: for each request, the nodes of its continuation.
    """

    tokens: Ints
    depths: Ints
    parents: Ints
    targets: Ints
    rows: Bools
    spans: list[Ints]


class Cost(NamedTuple):
    """What a pack, or a whole plan, asks of the machine.

    Attributes:
        tokens: nodes pushed through the layers.
        pairs: products of a query and a key, per head and layer.
        rows: positions at which the language-model head is computed.
    """

    tokens: int
    pairs: int
    rows: int


class Limits(NamedTuple):
    """How large the parts of a plan may be.

    Attributes:
        pack: the most nodes of a pack.
        pairs: the most pairs of a tile, as memory allows.
        fast_pairs: the most pairs of a tile, as the processor's cache advises.
        fast_tile: nodes below which a tile is not cut for the sake of that advice.
    """

    pack: int
    pairs: int
    fast_pairs: int
    fast_tile: int

    def tile(self, depth: int) -> int:
        """The most nodes of a tile that starts at `depth`: `n * (depth + n)` pairs."""
        advised = max(self.fast_tile, _largest(self.fast_pairs, depth))
        return max(1, min(advised, _largest(self.pairs, depth)))


@dataclass(frozen=True, slots=True)
class Tile:
    """Nodes `start` to `stop` (exclusive) of a trie, `n` of them.

    Attributes:
        depth: how many keys the path to the first node has.
        limits: `(n,)`, how many of them, from the first on, each node sees.
        family: bool `(n, n)`, which nodes of the tile each node sees: its ancestors and itself.
        kept: `(k,)`, offsets of nodes that are on the path to the next tile.
    """

    start: int
    stop: int
    depth: int
    limits: Ints
    family: Bools
    kept: Ints


@dataclass(frozen=True, slots=True)
class Pack:
    """The nodes `start` to `stop` (exclusive) of a trie, and the tiles that they form."""

    start: int
    stop: int
    tiles: list[Tile]


def refusal(request: Request, window: int) -> Refusal | None:
    """Why a request cannot be scored by a model of `window` positions, if it cannot."""
    context, continuation = map(len, request)
    if continuation == 0:
        return Refusal("empty continuation")
    if context == 0:
        return Refusal("empty context")
    if context + continuation > window:
        return Refusal(
            f"{context} context and {continuation} continuation tokens "
            f"exceed the model's window of {window}"
        )
    return None


def build_trie(requests: Sequence[Request]) -> Trie:
    """The trie of one request or more, contexts and continuations alike."""
    sequences = [np.array(r.context_ids + r.continuation_ids, dtype=np.int64) for r in requests]
    # Big-endian bytes compare as the ids do.
    order = sorted(range(len(requests)), key=lambda i: sequences[i].astype(">u4").tobytes())
    path = np.full(max(map(len, sequences)) + 1, -1)  # path[d + 1]: the current node at depth d
    tokens, depths, parents = [], [], []
    spans = [path] * len(requests)
    previous = sequences[order[0]][:0]
    n = 0
    for i in order:
        ids = sequences[i]
        shared, length = _shared_prefix(previous, ids), len(ids)
        path[shared + 1 : length + 1] = np.arange(n, n + length - shared)
        tokens.append(ids[shared:])
        depths.append(np.arange(shared, length))
        parents.append(path[shared:length].copy())
        spans[i] = path[len(requests[i].context_ids) + 1 : length + 1].copy()
        previous = ids
        n += length - shared
    parent = np.concatenate(parents)
    targets = np.unique(np.concatenate(spans))
    rows = np.zeros(n, dtype=np.bool_)
    rows[parent[targets]] = True
    rows[[span[-1] for span in spans]] = True
    return Trie(
        tokens=np.concatenate(tokens),
        depths=np.concatenate(depths),
        parents=parent,
        targets=targets[np.argsort(parent[targets], kind="stable")],
        rows=rows,
        spans=spans,
    )


def packs(trie: Trie, limits: Limits) -> list[tuple[int, int]]:
    """The nodes of each pack: as few packs as the limit allows, of near-equal length.

    A cut recomputes nothing and larger matrix products are faster, so that is cheapest.
    """
    n = len(trie.tokens)
    count = -(-n // limits.pack)
    edges = [n * i // count for i in range(count + 1)]
    return list(pairwise(edges))


def tiles(trie: Trie, start: int, stop: int, limits: Limits) -> Iterator[tuple[int, int]]:
    """The nodes of each tile of a pack."""
    while start < stop:
        size = limits.tile(int(trie.depths[start]))
        count = -(-(stop - start) // size)
        end = start + -(-(stop - start) // count)
        yield start, end
        start = end


def cost(trie: Trie, limits: Limits) -> Cost:
    """The cost of a trie cut under the limits."""
    pairs = 0
    for pack in packs(trie, limits):
        for start, stop in tiles(trie, *pack, limits):
            pairs += (stop - start) * (int(trie.depths[start]) + stop - start)
    return Cost(len(trie.tokens), pairs, int(trie.rows.sum()))


def lay_out(trie: Trie, start: int, stop: int) -> Tile:
    """What attention needs to know of a tile."""
    n, depth = stop - start, int(trie.depths[start])
    limits = np.empty(n, dtype=np.int64)
    family = np.eye(n, dtype=np.bool_)
    for node, parent in enumerate((trie.parents[start:stop] - start).tolist()):
        if parent < 0:
            limits[node] = trie.depths[start + node]
        else:
            limits[node] = limits[parent]
            family[node] |= family[parent]
    kept = []
    node = int(trie.parents[stop]) if stop < len(trie.parents) else -1
    while node >= start:
        kept.append(node - start)
        node = int(trie.parents[node])
    return Tile(start, stop, depth, limits, family, np.array(kept[::-1], dtype=np.int64))


def _shared_prefix(left: Ints, right: Ints) -> int:
    n = min(len(left), len(right))
    differ = left[:n] != right[:n]
    return int(differ.argmax()) if differ.any() else n


def _largest(pairs: int, depth: int) -> int:
    """The largest n with n * (depth + n) <= pairs."""
    return int(((depth * depth + 4 * pairs) ** 0.5 - depth) / 2)
