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

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from backfire.scoring import Refusal, Request

Ints = npt.NDArray[np.int32]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Trie:
    """The distinct (prefix, token) pairs of some requests, `n` nodes in preorder.

    Attributes:
        tokens: `(n,)`, the token of each node.
        depths: `(n,)`, its position in the sequence, 0 for a first token.
        parents: `(n,)`, the node before it, -1 for a first token.
        rows: `(r,)`, the nodes whose next token is asked for: what the head computes.
        targets: `(t,)`, the nodes that are scored, ordered by their parents.
        spans: for each request, its continuation as indices into `targets`.
        ends: for each request, the last node of its continuation.
    """

    tokens: Ints
    depths: Ints
    parents: Ints
    rows: Ints
    targets: Ints
    spans: list[Ints]
    ends: Ints


class Cost(NamedTuple):
    """What a plan asks of the machine."""

    tokens: int  # pushed through the layers
    pairs: int  # products of a query and a key, per head and layer
    rows: int  # positions at which the language-model head is computed


class Limits(NamedTuple):
    """The most nodes of a pack, the most of a tile, and the most pairs of a tile."""

    pack: int
    tile: int
    pairs: int

    def tile_at(self, depth: int) -> int:
        """The most nodes of a tile that starts at `depth`, given n * (depth + n) pairs."""
        fits = int(((depth * depth + 4 * self.pairs) ** 0.5 - depth) / 2)
        return max(1, min(self.tile, fits))


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
    sequences = [np.array(r.context_ids + r.continuation_ids, dtype=np.int32) for r in requests]
    # Big-endian bytes compare as the ids do.
    order = sorted(range(len(requests)), key=lambda i: sequences[i].astype(">u4").tobytes())
    longest = max(map(len, sequences))
    positions = np.arange(longest, dtype=np.int32)
    path = np.full(longest + 1, -1, dtype=np.int32)  # path[d + 1]: the current node at depth d
    tokens, depths, parents = [], [], []
    continuations = [path] * len(requests)
    previous = path[:0]
    n = 0
    for i in order:
        ids = sequences[i]
        shared, length = _shared_prefix(previous, ids), len(ids)
        path[shared + 1 : length + 1] = n + positions[: length - shared]
        tokens.append(ids[shared:])
        depths.append(positions[shared:length])
        parents.append(path[shared:length].copy())
        continuations[i] = path[len(requests[i].context_ids) + 1 : length + 1].copy()
        previous = ids
        n += length - shared
    parent = np.concatenate(parents)
    scored = np.unique(np.concatenate(continuations))
    by_parent = np.argsort(parent[scored], kind="stable")
    place = np.argsort(by_parent).astype(np.int32)
    ends = np.array([nodes[-1] for nodes in continuations], dtype=np.int32)
    return Trie(
        tokens=np.concatenate(tokens),
        depths=np.concatenate(depths),
        parents=parent,
        rows=np.union1d(parent[scored], ends),
        targets=scored[by_parent],
        spans=[place[np.searchsorted(scored, nodes)] for nodes in continuations],
        ends=ends,
    )


def packs(trie: Trie, limits: Limits) -> list[tuple[int, int]]:
    """The nodes of each pack: as few packs as the limit allows, of near-equal length.

    A cut recomputes nothing and larger matrix products are faster, so that is cheapest.
    """
    n = len(trie.tokens)
    count = math.ceil(n / limits.pack)
    edges = [n * i // count for i in range(count + 1)]
    return list(pairwise(edges))


def tiles(trie: Trie, start: int, stop: int, limits: Limits) -> Iterator[tuple[int, int]]:
    """The nodes of each tile of a pack."""
    while start < stop:
        count = math.ceil((stop - start) / limits.tile_at(int(trie.depths[start])))
        end = start + math.ceil((stop - start) / count)
        yield start, end
        start = end


def cost(trie: Trie, limits: Limits) -> Cost:
    """The cost of a trie cut under the limits."""
    pairs = 0
    for pack in packs(trie, limits):
        for start, stop in tiles(trie, *pack, limits):
            pairs += (stop - start) * (int(trie.depths[start]) + stop - start)
    return Cost(len(trie.tokens), pairs, len(trie.rows))


def lay_out(trie: Trie, start: int, stop: int) -> Tile:
    """What attention needs to know of a tile."""
    n, depth = stop - start, int(trie.depths[start])
    limits = np.empty(n, dtype=np.int32)
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
    return Tile(start, stop, depth, limits, family, np.array(kept[::-1], dtype=np.int32))


def _shared_prefix(left: Ints, right: Ints) -> int:
    n = min(len(left), len(right))
    differ = left[:n] != right[:n]
    return int(differ.argmax()) if differ.any() else n
