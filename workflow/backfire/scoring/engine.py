"""The packed engine: each distinct (prefix, token) through the model once.

    requests -> plan.build_trie -> plan.pack -> Engine: one forward per pack -> scores

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
from backfire.scoring.head import NonFiniteLogits, read_logits, window_of
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
            values of the longest context, the activations of a pack and three times this.
    """

    def __init__(
        self, network: PreTrainedModel, *, pack_tokens: int | None = None, memory: int = 1 << 26
    ) -> None:
        config = network.config.get_text_config()
        on_cpu = network.device.type == "cpu"
        per_head = memory // (4 * config.num_attention_heads)
        self.limits = Limits(
            pack=pack_tokens or (1024 if on_cpu else 8192),
            pairs=per_head,
            # Two megabytes of scores stay in the cache of a core.
            fast_pairs=(1 << 21) // (4 * config.num_attention_heads) if on_cpu else per_head,
            fast_tile=64 if on_cpu else 512,
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
        given = sum(int(trie.depths[span[-1]]) + 1 for span in trie.spans)
        planned = cost(trie, self.limits)
        log.info(
            "%d requests of %d tokens: %d tokens to push, %d attention pairs, %d rows of the head",
            len(trie.spans), given, *planned,
        )  # fmt: skip
        space = Workspace(int(trie.depths.max()) + 1 + self.limits.tile(0))
        results = _Results(trie)
        ends = np.array([span[-1] for span in trie.spans])
        waiting = np.argsort(ends, kind="stable").tolist()[::-1]
        with tqdm(total=planned.tokens, unit="tok", unit_scale=True, mininterval=1) as bar:
            for start, stop in packs(trie, self.limits):
                self._push(trie, start, stop, space, results)
                bar.update(stop - start)
                done = []
                while waiting and ends[waiting[-1]] < stop:
                    request = waiting.pop()
                    done.append((request, results.score(request)))
                if done:
                    yield done

    @torch.inference_mode()
    def _push(self, trie: Trie, start: int, stop: int, space: Workspace, results: _Results) -> None:
        """One forward pass, and the head at the rows that are asked for."""
        cut = [lay_out(trie, *edges) for edges in tiles(trie, start, stop, self.limits)]
        hidden = self.body(
            input_ids=torch.from_numpy(trie.tokens[None, start:stop]).to(self.device),
            position_ids=torch.from_numpy(trie.depths[None, start:stop]).to(self.device),
            use_cache=False,
            pack_state=PackState(trie, cut, space, self.device),
        ).last_hidden_state[0]
        offsets = np.flatnonzero(trie.rows[start:stop])
        for first in range(0, len(offsets), self.head_rows):
            some = offsets[first : first + self.head_rows]
            given = hidden[torch.from_numpy(some).to(self.device)]
            results.read(start + some, self.head(inputs_embeds=given[None]).logits[0])


class _Results:
    """What has been read of a trie's nodes so far, by node."""

    def __init__(self, trie: Trie) -> None:
        n = len(trie.tokens)
        self.trie = trie
        self.target_parents = trie.parents[trie.targets]
        self.logprob = np.full(n, np.nan)  # of the node's token, given its parent
        self.match = np.zeros(n, dtype=np.bool_)  # whether it is the argmax there
        self.gap = np.full(n, np.nan)  # the top-2 gap there
        self.argmax = np.full(n, -1, dtype=np.int64)  # what would follow the node

    def read(self, rows: np.ndarray, logits: Tensor) -> None:
        """Take the logits `(r, vocabulary)` at the nodes `rows` `(r,)`, which are in order."""
        reading = read_logits(logits)
        argmax = reading.argmax.cpu().numpy()
        self.argmax[rows] = argmax
        low, high = np.searchsorted(self.target_parents, (rows[0], rows[-1] + 1))
        targets = self.trie.targets[low:high]
        row = np.searchsorted(rows, self.target_parents[low:high])
        tokens = self.trie.tokens[targets]
        where = torch.from_numpy(row).to(logits.device)
        chosen = logits[where, torch.from_numpy(tokens).to(logits.device)].float()
        logprob = (chosen - reading.log_total[where]).double().cpu().numpy()
        if not np.isfinite(logprob).all():
            raise NonFiniteLogits("the logit of a scored token is not finite")
        self.logprob[targets] = logprob
        self.match[targets] = argmax[row] == tokens
        self.gap[targets] = reading.gap.cpu().numpy()[row]

    def score(self, request: int) -> Score:
        span = self.trie.spans[request]
        return Score(
            token_logprobs=self.logprob[span],
            argmax_match=self.match[span],
            next_argmax=int(self.argmax[span[-1]]),
            min_gap=float(self.gap[span].min()),
        )
