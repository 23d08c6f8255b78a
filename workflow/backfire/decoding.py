"""Many turns written at once, in lockstep: one forward pass gives every row its next token.

A row keeps the keys and values of its last context and generation, by position. A new prompt
reuses the longest prefix that it shares with them, or with another row's, so a transcript that
grows or whose tail is rewritten costs only what is new. What all rows begin with (the system
prompt, demonstrations) is kept, and attended to, once.

    Decoder(network, prefix).write(turns) -> one Written per turn, in order

A row's result does not depend on the other rows, except where two tokens tie up to rounding.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import takewhile

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from transformers import PreTrainedModel

from backfire.ban import Ending, Rule
from backfire.rowattention import NAME, RowCache, Rows
from backfire.scoring.head import NonFiniteLogits, window_of
from backfire.scoring.twin import split

NEAR_TIE = 1e-4
"""A gap between the two best logits below which rounding may decide."""

_CHUNK = 512
"""Prompt tokens pushed at once."""


@dataclass(frozen=True)
class Turn:
    """A turn to be written.

    Attributes:
        row: whose cache is used, from 0; no two turns of one call share a row.
        prompt: token ids up to where the turn begins.
        rule: when the turn ends, and as what it may not.
        temperature: 0 for greedy decoding.
        noise: names the random numbers, such as "seed/task/step".
    """

    row: int
    prompt: tuple[int, ...]
    rule: Rule
    temperature: float = 0.0
    noise: str = ""


@dataclass(frozen=True)
class Written:
    """A turn as it was written.

    Attributes:
        ids: its tokens, without the one that stopped it.
        text: the decoded tokens.
        ending: what ended it.
        generated: tokens chosen, with the one that stopped it.
        near_ties: choices between two tokens closer than `NEAR_TIE`.
        prompt_tokens: the length of the prompt.
        pushed: how many of them were not in the cache.
    """

    ids: tuple[int, ...]
    text: str
    ending: Ending
    generated: int
    near_ties: int
    prompt_tokens: int
    pushed: int


@dataclass
class _Draft:
    """A turn while it is being written; `token` is to be pushed at `position`."""

    index: int
    turn: Turn
    pushed: int
    token: int
    noise: np.random.Generator
    ids: list[int] = field(default_factory=list)
    near_ties: int = 0

    @property
    def position(self) -> int:
        return len(self.turn.prompt) - 1 + len(self.ids)


class Decoder:
    """Writes turns under one model.

    Args:
        network: a causal language model of transformers in eval mode; it is not changed. Its
            `generation_config` plays no part: no penalty, no forced or suppressed token.
        prefix: token ids that every prompt begins with, followed by at least one more.

    Raises:
        UserError: the model's architecture is not supported.
    """

    def __init__(self, network: PreTrainedModel, prefix: Sequence[int] = ()) -> None:
        self.window = window_of(network)
        self.device = network.device
        self._body, self._head = split(network)
        self._body.set_attn_implementation(NAME)  # type: ignore[operator]
        self._prefix = tuple(prefix)
        self._cache = RowCache(len(prefix))
        self._known: list[list[int]] = []  # the ids of each row's cache after the prefix
        self._push(None, list(prefix), 0)

    @torch.inference_mode()
    def write(self, turns: Sequence[Turn]) -> list[Written]:
        """Write every turn to its end.

        Raises:
            ValueError: a prompt does not begin with the prefix, or leaves no room in the window.
            NonFiniteLogits: the model gave NaN or infinite logits.
        """
        self._check(turns)
        self._admit(turns)
        drafts = [self._begin(index, turn) for index, turn in enumerate(turns)]
        written: dict[int, Written] = {}
        while drafts:
            logits = self._step(drafts)
            going = []
            for draft, row in zip(drafts, logits, strict=True):
                ending = _choose(draft, row)
                if ending is None:
                    going.append(draft)
                else:
                    written[draft.index] = _finish(draft, ending)
            if len(going) < len(drafts):
                self._cache.bring_forward([draft.turn.row for draft in going])
            drafts = going
        return [written[index] for index in range(len(turns))]

    def _check(self, turns: Sequence[Turn]) -> None:
        for turn in turns:
            if len(turn.prompt) <= len(self._prefix) or (
                turn.prompt[: len(self._prefix)] != self._prefix
            ):
                raise ValueError("a prompt does not begin with the decoder's prefix")
            if len(turn.prompt) + turn.rule.limit > self.window:
                raise ValueError(
                    f"{len(turn.prompt)} tokens and {turn.rule.limit} more do not fit the "
                    f"window of {self.window}"
                )
        rows = [turn.row for turn in turns]
        if len(set(rows)) < len(rows):
            raise ValueError("two turns share a row")

    def _admit(self, turns: Sequence[Turn]) -> None:
        """Room in the cache for every row, those of these turns in front."""
        rows = 1 + max((turn.row for turn in turns), default=-1)
        self._known += [[] for _ in range(rows - len(self._known))]
        longest = max((len(turn.prompt) + turn.rule.limit for turn in turns), default=0)
        self._cache.reserve(len(self._known), longest - len(self._prefix))
        self._cache.bring_forward([turn.row for turn in turns])

    def _begin(self, index: int, turn: Turn) -> _Draft:
        """Fill the row's cache with all of the prompt but its last token."""
        tail = list(turn.prompt[len(self._prefix) :])
        own = self._known[turn.row]
        best, shared = turn.row, _common(own, tail)
        for row, known in enumerate(self._known):
            if (length := _common(known, tail)) > shared:
                best, shared = row, length
        reused = min(shared, len(tail) - 1)
        if best != turn.row:
            self._cache.copy(best, turn.row, reused)
        self._known[turn.row] = tail[:-1]
        self._push(turn.row, tail[reused:-1], len(self._prefix) + reused)
        noise = np.random.default_rng(
            int.from_bytes(hashlib.sha256(turn.noise.encode()).digest()[:16], "big")
        )
        return _Draft(index, turn, len(tail) - reused, turn.prompt[-1], noise)

    @torch.inference_mode()
    def _push(self, row: int | None, ids: Sequence[int], start: int) -> None:
        """Fill the cache of a row, or of the prefix, with tokens from position `start` on."""
        for first in range(0, len(ids), _CHUNK):
            chunk = torch.tensor([ids[first : first + _CHUNK]])
            positions = start + first + torch.arange(chunk.shape[1])[None]
            self._forward(chunk, positions, row)

    def _step(self, drafts: Sequence[_Draft]) -> npt.NDArray[np.float32]:
        """Push each draft's token; logits `(drafts, vocabulary)` of what follows it."""
        tokens = torch.tensor([[draft.token] for draft in drafts])
        positions = torch.tensor([[draft.position] for draft in drafts])
        for draft in drafts:
            self._known[draft.turn.row].append(draft.token)
        hidden = self._forward(tokens, positions, slice(0, len(drafts)))
        logits = self._head(inputs_embeds=hidden).logits[:, 0].float()
        if not bool(torch.isfinite(logits).all()):
            raise NonFiniteLogits("the model's logits are not finite")
        return logits.cpu().numpy()  # type: ignore[no-any-return]

    def _forward(self, tokens: Tensor, positions: Tensor, rows: slice | int | None) -> Tensor:
        """Hidden states of tokens `(rows, n)` at their positions, entered into the cache."""
        if isinstance(rows, int):
            slot = self._cache.slots[rows]
            rows = slice(slot, slot + 1)
        state = Rows(self._cache, rows, positions, self.device)
        hidden: Tensor = self._body(
            input_ids=tokens.to(self.device),
            position_ids=state.positions,
            use_cache=False,
            row_state=state,
        ).last_hidden_state
        return hidden


def common_prefix(prompts: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """What all prompts begin with, short of the whole of any."""
    if not prompts:
        return ()
    shortest, longest = min(prompts), max(prompts)
    length = min(_common(shortest, longest), min(map(len, prompts)) - 1)
    return shortest[:length]


def _common(one: Sequence[int], other: Sequence[int]) -> int:
    """The length of the longest common prefix."""
    pairs = zip(one, other, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _choose(draft: _Draft, logits: npt.NDArray[np.float32]) -> Ending | None:
    """Add the best token that the rule allows; how that ends the turn, or None if it goes on.

    A sample is the argmax of logits / temperature plus Gumbel noise, so that it changes with
    the logits only at near-ties, as a greedy choice does.
    """
    turn = draft.turn
    scores = logits.astype(np.float64)
    if turn.temperature > 0:
        scores -= turn.temperature * np.log(draft.noise.standard_exponential(len(scores)))
    token = int(scores.argmax())
    while not turn.rule.allows(draft.ids, token):
        scores[token] = -np.inf
        token = int(scores.argmax())
    best, scores[token] = scores[token], -np.inf
    draft.near_ties += bool(best - scores.max() < NEAR_TIE)
    ending = turn.rule.ending(draft.ids, token)
    draft.token = token
    draft.ids.append(token)
    return ending


def _finish(draft: _Draft, ending: Ending) -> Written:
    generated = len(draft.ids)
    ids = draft.ids[:-1] if ending == "stop" else draft.ids
    return Written(
        tuple(ids),
        draft.turn.rule.decode(ids),
        ending,
        generated,
        draft.near_ties,
        len(draft.turn.prompt),
        draft.pushed,
    )
