"""The packed engine: each distinct (prefix, token) through the model once.

    requests -> plan.build_trie -> plan.packs -> Engine._push, pack by pack -> _Results -> scores

The layers are those of transformers, whatever the family; what is replaced is the attention
function (`attention`) and, on a CPU, the linear layers (`twin`).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm  # type: ignore[import-untyped]
from transformers import PreTrainedModel

from backfire.scoring import Refusal, Request, Score
from backfire.scoring.attention import PackState, Workspace
from backfire.scoring.head import read_logits, window_of
from backfire.scoring.plan import Limits, Trie, build_trie, cost, lay_out, packs, refusal, tiles
from backfire.scoring.twin import split

log = logging.getLogger(__name__)

Batch = list[tuple[int, Score | Refusal]]


class Engine:
    """Scores requests under one model; holds no state between calls.

    Args:
        network: a causal language model of transformers, in eval mode. It is not changed.
        pack_tokens: the most tokens of one forward pass.
        memory: bytes that the scores of attention, and likewise the logits, may take. Peak memory
            is the weights (twice on a CPU, unless the caller drops `network`), the keys and
            values of the longest context, the activations of a pack and twice this.
    """

    def __init__(
        self, network: PreTrainedModel, *, pack_tokens: int | None = None, memory: int = 1 << 26
    ) -> None:
        config = network.config.get_text_config()
        on_cpu = network.device.type == "cpu"
        self.limits = Limits(
            pack=pack_tokens or (1024 if on_cpu else 8192),
            tile=64 if on_cpu else 512,  # on a CPU, so that a score matrix stays in its cache
            pairs=memory // (4 * config.num_attention_heads),
        )
        self.head_rows = max(1, memory // (4 * config.vocab_size))
        self.window = window_of(network)
        self.device = network.device
        self.body, self.head = split(network)

    def run(self, requests: Sequence[Request]) -> Iterator[Batch]:
        """Score the requests; yields what each pack completes, as (index, result) pairs.

        Raises:
            NonFiniteLogits: the model gave NaN or infinite logits.
        """
        refusals = [refusal(request, self.window) for request in requests]
        refused: Batch = [(i, r) for i, r in enumerate(refusals) if r is not None]
        if refused:
            yield refused
        chosen = [i for i, r in enumerate(refusals) if r is None]
        if not chosen:
            return
        trie = build_trie([requests[i] for i in chosen])
        for batch in self._run_trie(trie):
            yield [(chosen[i], score) for i, score in batch]

    def _run_trie(self, trie: Trie) -> Iterator[list[tuple[int, Score]]]:
        given = int((trie.depths[trie.ends] + 1).sum())
        planned = cost(trie, self.limits)
        log.info(
            "%d requests of %d tokens: %d tokens to push, %d attention pairs, %d rows of the head",
            len(trie.spans), given, *planned,
        )  # fmt: skip
        space = Workspace(int(trie.depths.max()) + 1 + self.limits.tile_at(0))
        results = _Results(trie)
        waiting = np.argsort(trie.ends, kind="stable").tolist()[::-1]
        with tqdm(total=planned.tokens, unit="tok", unit_scale=True, mininterval=5) as bar:
            for start, stop in packs(trie, self.limits):
                self._push(trie, start, stop, space, results)
                bar.update(stop - start)
                done = []
                while waiting and trie.ends[waiting[-1]] < stop:
                    request = waiting.pop()
                    done.append((request, results.score(request)))
                if done:
                    yield done

    @torch.inference_mode()
    def _push(self, trie: Trie, start: int, stop: int, space: Workspace, results: _Results) -> None:
        """One forward pass, and the head at the rows that are asked for."""
        cut = [lay_out(trie, *edges) for edges in tiles(trie, start, stop, self.limits)]
        nodes = np.s_[None, start:stop]
        hidden = self.body(
            input_ids=torch.from_numpy(trie.tokens[nodes]).to(self.device, torch.int64),
            position_ids=torch.from_numpy(trie.depths[nodes]).to(self.device, torch.int64),
            use_cache=False,
            pack_state=PackState(trie, cut, space, self.device),
        ).last_hidden_state[0]
        first, last = np.searchsorted(trie.rows, (start, stop))
        for low in range(first, last, self.head_rows):
            high = min(low + self.head_rows, last)
            offsets = torch.from_numpy(trie.rows[low:high] - start).to(self.device)
            logits = self.head(inputs_embeds=hidden[offsets][None]).logits[0]
            results.read(low, high, logits)


class _Results:
    """What has been read of a trie so far, by target and by row."""

    def __init__(self, trie: Trie) -> None:
        self.trie = trie
        self.row_of = np.searchsorted(trie.rows, trie.parents[trie.targets])
        self.logprobs = np.full(len(trie.targets), np.nan)
        self.matches = np.zeros(len(trie.targets), dtype=np.bool_)
        self.gaps = np.full(len(trie.rows), np.nan)
        self.argmax = np.full(len(trie.rows), -1)

    def read(self, low: int, high: int, logits: Tensor) -> None:
        """Take the logits `(high - low, vocabulary)` of the rows `low` to `high`."""
        some = slice(*np.searchsorted(self.row_of, (low, high)))
        where, tokens = self.row_of[some], self.trie.tokens[self.trie.targets[some]]
        device = logits.device
        reading = read_logits(
            logits, torch.from_numpy(where - low).to(device), torch.from_numpy(tokens).to(device)
        )
        self.argmax[low:high] = reading.argmax.cpu()
        self.gaps[low:high] = reading.gap.cpu()
        self.logprobs[some] = reading.logprobs.cpu()
        self.matches[some] = self.argmax[where] == tokens

    def score(self, request: int) -> Score:
        span, end = self.trie.spans[request], self.trie.ends[request]
        return Score(
            token_logprobs=self.logprobs[span],
            argmax_match=self.matches[span],
            next_argmax=int(self.argmax[np.searchsorted(self.trie.rows, end)]),
            min_gap=float(self.gaps[self.row_of[span]].min()),
        )
