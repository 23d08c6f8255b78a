"""From requests to a token trie, and from the trie to packs of one forward pass each.

The requests are sorted by their tokens, so that each one only adds to the trie what it does not
share with the one before it, and the nodes, numbered as they are added, stand in preorder: a
subtree is a range of node numbers. Two facts follow and carry the whole engine.

- A pack is a range of nodes. Whatever its nodes attend to outside of it lies on one path, the
  ancestors of its first node, so the key-value cache is a single sequence and every node is
  pushed through the model exactly once.
- The keys of a run of nodes are seen by a range of queries, their subtree, so attention is a few
  dense products (`Block`), and a key's column in the score matrix is its depth: what a query may
  see is a comparison of depths, sliding windows included.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
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
        tokens: int64 `(n,)`, the token of each node.
        depths: int64 `(n,)`, its position in the sequence, 0 for a first token.
        parents: int64 `(n,)`, the node before it, -1 for a first token.
        targets: int64 `(t,)`, the nodes that are scored, ordered by their parents.
        lasts: bool `(n,)`, whether a continuation ends there.
        spans: for each request, the nodes of its continuation.
    """

    tokens: Ints
    depths: Ints
    parents: Ints
    targets: Ints
    lasts: Bools
    spans: list[Ints]


class Cost(NamedTuple):
    """What a pack, or a sum of them, asks of the machine.

    Attributes:
        tokens: nodes pushed through the layers.
        pairs: (query, key) pairs of attention, per head and layer of full attention.
        rows: positions at which the language-model head is computed.
    """

    tokens: int
    pairs: int
    rows: int

    def __add__(self, other: tuple[int, ...]) -> Cost:  # type: ignore[override]
        return Cost(*(a + b for a, b in zip(self, other, strict=True)))


class Block(NamedTuple):
    """Keys at `depth`, `depth + 1`, ... that the queries `first` to `last` (exclusive) attend to.

    `start` and `stop` number the keys within the pack, or within the cached path.
    """

    cached: bool
    start: int
    stop: int
    depth: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Pack:
    """The nodes `start` to `stop` (exclusive) of a trie, pushed in one forward pass.

    Attributes:
        rows: int64 `(r,)`, the nodes at which the head is computed.
        blocks: which keys which queries attend to, by offset within the pack.
        keep: int64 `(k,)`, offsets of the nodes that later packs attend to.
        cost: what it asks of the machine.
    """

    start: int
    stop: int
    rows: Ints
    blocks: tuple[Block, ...]
    keep: Ints
    cost: Cost


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
    """The trie of the requests, contexts and continuations alike."""
    sequences = [np.array(r.context_ids + r.continuation_ids, dtype=np.int64) for r in requests]
    # Big-endian bytes compare as the ids do.
    order = sorted(range(len(requests)), key=lambda i: sequences[i].astype(">u4").tobytes())
    longest = max(map(len, sequences), default=0)
    path = np.full(longest + 1, -1, dtype=np.int64)  # path[d + 1]: the current node at depth d
    previous = np.empty(0, dtype=np.int64)
    tokens, depths, parents = [], [], []
    spans = [previous] * len(requests)
    n = 0
    for i in order:
        ids = sequences[i]
        shared = _shared_prefix(previous, ids)
        fresh = len(ids) - shared
        path[shared + 1 : len(ids) + 1] = np.arange(n, n + fresh)
        tokens.append(ids[shared:])
        depths.append(np.arange(shared, len(ids)))
        parents.append(path[shared : len(ids)].copy())
        spans[i] = path[len(requests[i].context_ids) + 1 : len(ids) + 1].copy()
        previous = ids
        n += fresh
    parent = np.concatenate([previous[:0], *parents])
    scored = np.zeros(n, dtype=np.bool_)
    lasts = np.zeros(n, dtype=np.bool_)
    for span in spans:
        scored[span] = True
        lasts[span[-1]] = True
    targets = np.flatnonzero(scored)
    return Trie(
        tokens=np.concatenate([previous[:0], *tokens]),
        depths=np.concatenate([previous[:0], *depths]),
        parents=parent,
        targets=targets[np.argsort(parent[targets], kind="stable")],
        lasts=lasts,
        spans=spans,
    )


def pack(trie: Trie, size: int) -> Iterator[Pack]:
    """Cut a trie into packs of near-equal length, of at most `size` nodes each.

    Since a cut costs nothing but the shorter matrix products, the packs are as few as `size`
    allows: the caller derives it from the memory that it may use.
    """
    n = len(trie.tokens)
    count = -(-n // size)
    rows = trie.lasts.copy()
    rows[trie.parents[trie.targets]] = True
    for i in range(count):
        start, stop = n * i // count, n * (i + 1) // count
        head = start + np.flatnonzero(rows[start:stop])
        pairs = int((trie.depths[start:stop] + 1).sum())
        yield Pack(
            start=start,
            stop=stop,
            rows=head,
            blocks=tuple(_blocks(trie, start, stop)),
            keep=_kept(trie, start, stop),
            cost=Cost(stop - start, pairs, len(head)),
        )


def total_cost(trie: Trie) -> Cost:
    """The cost of a whole trie, however it is cut."""
    rows = np.union1d(trie.parents[trie.targets], np.flatnonzero(trie.lasts))
    return Cost(len(trie.tokens), int((trie.depths + 1).sum()), len(rows))


def _shared_prefix(left: Ints, right: Ints) -> int:
    n = min(len(left), len(right))
    differ = left[:n] != right[:n]
    return int(differ.argmax()) if differ.any() else n


def _blocks(trie: Trie, start: int, stop: int) -> Iterator[Block]:
    """Walk the runs of the pack in preorder, closing a key range when its subtree ends."""
    n = stop - start
    heads = np.flatnonzero(trie.parents[start:stop] != np.arange(start - 1, stop - 1))
    runs = sorted({0, *heads.tolist()})
    depth = int(trie.depths[start])
    opened: list[Block] = [Block(True, 0, depth, 0, 0, n)] if depth else []
    for run, end in zip(runs, [*runs[1:], n], strict=True):
        depth = int(trie.depths[start + run])
        while opened and opened[-1].depth + opened[-1].stop - opened[-1].start > depth:
            block = opened.pop()
            inside = max(depth - block.depth, 0)  # keys that the new run still sees
            if inside:
                opened.append(block._replace(stop=block.start + inside))
            cut = block.start + inside
            first = block.first if block.cached else cut
            yield block._replace(start=cut, depth=block.depth + inside, first=first, last=run)
        opened.append(Block(False, run, end, depth, run, n))
    yield from opened


def _kept(trie: Trie, start: int, stop: int) -> Ints:
    """The offsets of those nodes of a pack that are ancestors of the node after it."""
    kept = []
    node = int(trie.parents[stop]) if stop < len(trie.parents) else -1
    while node >= start:
        kept.append(node - start)
        node = int(trie.parents[node])
    return np.array(kept[::-1], dtype=np.int64)
