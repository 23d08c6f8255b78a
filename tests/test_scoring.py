"""The packed engine gives what the plain loop gives, for every architecture of the ladder."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_models import ARCHITECTURES, WINDOW, tiny_model

from backfire.errors import UserError
from backfire.scoring import Refusal, Request, Score, reference, score
from backfire.scoring.engine import Engine
from backfire.scoring.head import NonFiniteLogits
from backfire.scoring.plan import Limits, build_trie, cost, lay_out, packs, tiles

DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
TOLERANCE = 1e-4


def assert_same(actual: Sequence[Score | Refusal], expected: Sequence[Score | Refusal]) -> None:
    assert len(actual) == len(expected)
    for got, want in zip(actual, expected, strict=True):
        if isinstance(want, Refusal):
            assert got == want
            continue
        assert isinstance(got, Score)
        np.testing.assert_allclose(got.token_logprobs, want.token_logprobs, atol=TOLERANCE, rtol=0)
        assert abs(got.min_gap - want.min_gap) < TOLERANCE
        assert got.next_argmax == want.next_argmax
        if want.min_gap > TOLERANCE:
            assert (got.argmax_match == want.argmax_match).all()


def branching_requests(seed: int, count: int = 30) -> list[Request]:
    """Requests that share prefixes of all lengths, continuations that run through contexts too."""
    rng = random.Random(seed)
    trunk = [rng.randrange(61) for _ in range(40)]
    requests = []
    for _ in range(count):
        context = trunk[: rng.randrange(1, 40)] + rng.choices(range(3), k=rng.randrange(6))
        cut = rng.randrange(1, len(context) + 1)
        continuation = context[cut:][:8] or rng.choices(range(3), k=rng.randrange(1, 6))
        requests.append(Request(tuple(context[:cut]), tuple(continuation)))
    return requests


short = st.lists(st.integers(0, 2), min_size=1, max_size=12).map(tuple)
requests_of_few_tokens = st.lists(st.builds(Request, short, short), min_size=1, max_size=8)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
@settings(max_examples=8, deadline=None)
@given(
    requests=requests_of_few_tokens,
    pack_tokens=st.integers(1, 40),
    memory=st.sampled_from([4, 1000, 1 << 20]),
)
def test_engine_equals_reference_on_random_tries(
    architecture: str, device: str, requests: list[Request], pack_tokens: int, memory: int
) -> None:
    network = tiny_model(architecture, device)
    actual = score(network, requests, pack_tokens=pack_tokens, memory=memory)
    assert_same(actual, reference.score(network, requests))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_engine_equals_reference_beyond_the_sliding_window(architecture: str, device: str) -> None:
    network = tiny_model(architecture, device)
    requests = branching_requests(seed=3, count=20)
    expected = reference.score(network, requests)
    for pack_tokens, memory in ((3, 1 << 20), (50, 4000), (10_000, 1 << 25)):
        assert_same(score(network, requests, pack_tokens=pack_tokens, memory=memory), expected)


def test_order_repetition_and_company_do_not_matter() -> None:
    network = tiny_model("llama")
    requests = branching_requests(seed=5)
    expected = score(network, requests)
    order = list(range(len(requests)))
    random.Random(0).shuffle(order)
    shuffled = score(network, [requests[i] for i in order] * 2)
    assert_same(shuffled, [expected[i] for i in order] * 2)
    assert_same(score(network, requests[:1]), expected[:1])


def test_thread_count_does_not_matter() -> None:
    network = tiny_model("qwen3")
    requests = branching_requests(seed=6)
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        one = score(network, requests)
        torch.set_num_threads(3)
        assert_same(score(network, requests), one)
    finally:
        torch.set_num_threads(threads)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_models_of_these_tests_tell_contexts_apart(architecture: str) -> None:
    # Else an engine with a wrong mask or wrong positions could agree with the reference.
    network = tiny_model(architecture)
    near, far, swapped = (5, 9, 7, 3, 3), (5, 8, 7, 3, 3), (5, 7, 9, 3, 3)
    scores = reference.score(network, [Request(c, (4,)) for c in (near, far, swapped)])
    values = [s.logprob for s in scores if isinstance(s, Score)]
    assert min(abs(values[0] - values[1]), abs(values[0] - values[2])) > 100 * TOLERANCE


def test_a_sliding_window_forgets_and_the_engine_knows_it() -> None:
    # With sliding layers alone, nothing beyond layers * (window - 1) tokens back can be seen.
    network = tiny_model("sliding_only")
    reach = 3 * (5 - 1)
    tail = tuple(random.Random(1).choices(range(61), k=reach + 1))
    same, other = score(network, [Request((7, *tail), (4,)), Request((9, *tail), (4,))])
    inside, changed = score(network, [Request((7, *tail[:2]), (4,)), Request((9, *tail[:2]), (4,))])
    assert isinstance(same, Score)
    assert isinstance(other, Score)
    assert isinstance(inside, Score)
    assert isinstance(changed, Score)
    assert same.logprob == pytest.approx(other.logprob, abs=1e-6)
    assert abs(inside.logprob - changed.logprob) > 1e-3


def test_refusals_keep_their_place() -> None:
    network = tiny_model("llama")
    fits = Request((1,) * (WINDOW - 2), (2, 3))
    results = score(
        network,
        [
            Request((1, 2), ()),
            Request((1, 2), (3,)),
            Request((), (3,)),
            fits._replace(continuation_ids=(2, 3, 4)),
        ],
    )
    assert results[0] == Refusal("empty continuation")
    assert isinstance(results[1], Score)
    assert results[2] == Refusal("empty context")
    assert results[3] == Refusal(
        f"{WINDOW - 2} context and 3 continuation tokens exceed the model's window of {WINDOW}"
    )
    assert score(network, []) == []
    assert isinstance(score(network, [fits])[0], Score)


def test_a_score_is_read_at_the_right_positions() -> None:
    network = tiny_model("qwen2")
    context, continuation = (5, 6, 7), (8, 9)
    (result,) = score(network, [Request(context, continuation)])
    assert isinstance(result, Score)
    with torch.no_grad():
        logits = network(torch.tensor([context + continuation])).logits[0].double()
    logprobs = logits.log_softmax(-1)
    np.testing.assert_allclose(
        result.token_logprobs, [logprobs[2, 8].item(), logprobs[3, 9].item()], atol=1e-5
    )
    assert result.next_argmax == int(logits[4].argmax())
    top = logits[2:4].topk(2).values
    assert result.min_gap == pytest.approx(float((top[:, 0] - top[:, 1]).min()), abs=1e-5)
    greedy = tuple(int(i) for i in logits[2:3].argmax(-1))
    (match,) = score(network, [Request(context, greedy)])
    assert isinstance(match, Score)
    assert match.greedy_match
    assert result.greedy_match == (tuple(int(i) for i in logits[2:4].argmax(-1)) == (8, 9))


def test_uniform_logits_give_the_same_score_everywhere_and_the_lowest_argmax() -> None:
    network = tiny_model("uniform")
    for result in score(network, branching_requests(seed=2)):
        assert isinstance(result, Score)
        np.testing.assert_allclose(result.token_logprobs, -np.log(61), atol=1e-6)
        assert result.min_gap == 0
        assert result.next_argmax == 0


def test_non_finite_logits_stop_the_run() -> None:
    network = tiny_model("broken")
    requests = [Request((1, 2), (3,))]
    with pytest.raises(NonFiniteLogits):
        score(network, requests)
    with pytest.raises(NonFiniteLogits):
        reference.score(network, requests)


def test_the_network_is_left_as_it_was_and_engines_share_nothing() -> None:
    first, second = tiny_model("llama"), tiny_model("gemma3")
    implementation = first.config._attn_implementation
    requests = branching_requests(seed=8)
    expected = [reference.score(network, requests) for network in (first, second)]
    engines = [Engine(network, pack_tokens=11) for network in (first, second)]
    runs = [engine.run(requests) for engine in engines]
    results: list[dict[int, Score | Refusal]] = [{}, {}]
    for batches in zip(*runs, strict=True):  # pack by pack, in turn
        for result, batch in zip(results, batches, strict=True):
            result.update(batch)
    for result, want in zip(results, expected, strict=True):
        assert_same([result[i] for i in range(len(requests))], want)
    assert first.config._attn_implementation == implementation
    assert_same(reference.score(first, requests), expected[0])


def test_a_model_that_scales_positions_by_length_is_refused() -> None:
    with pytest.raises(UserError, match="scales its positions"):
        Engine(tiny_model("dynamic_rope"))


@settings(max_examples=60, deadline=None)
@given(
    requests=requests_of_few_tokens,
    limits=st.builds(Limits, st.integers(1, 30), st.integers(1, 9), st.integers(1, 300)),
)
def test_the_plan_pushes_every_distinct_prefix_once_and_shows_each_node_its_path(
    requests: list[Request], limits: Limits
) -> None:
    trie = build_trie(requests)
    sequences = [r.context_ids + r.continuation_ids for r in requests]
    prefixes = {s[: i + 1] for s in sequences for i in range(len(s))}
    assert len(trie.tokens) == len(prefixes)
    spelled: list[tuple[int, ...]] = []
    for token, parent in zip(trie.tokens.tolist(), trie.parents.tolist(), strict=True):
        spelled.append((*(spelled[parent] if parent >= 0 else ()), token))
    assert set(spelled) == prefixes
    assert [len(s) - 1 for s in spelled] == trie.depths.tolist()
    for request, span in zip(requests, trie.spans, strict=True):
        nodes = trie.targets[span].tolist()
        assert spelled[nodes[-1]] == request.context_ids + request.continuation_ids
        assert tuple(spelled[node][-1] for node in nodes) == request.continuation_ids
    predicting = {
        s[:i]
        for s, r in zip(sequences, requests, strict=True)
        for i in range(len(r.context_ids), len(s) + 1)
    }
    assert {spelled[row] for row in trie.rows} == predicting
    # Follow the cache of one path from tile to tile: each node sees its ancestors and itself.
    cache: dict[int, int] = {}
    pairs = expected = 0
    for pack in packs(trie, limits):
        assert pack[0] == expected
        assert pack[1] - pack[0] <= limits.pack
        for edges in tiles(trie, *pack, limits):
            tile = lay_out(trie, *edges)
            assert tile.start == expected
            n = tile.stop - tile.start
            assert n == 1 or n * (tile.depth + n) <= max(limits.pairs, n)
            cache.update({tile.depth + k: tile.start + k for k in range(n)})
            for k in range(n):
                seen = [cache[d] for d in range(tile.limits[k])]
                seen += [tile.start + int(j) for j in np.flatnonzero(tile.family[k])]
                path = [tile.start + k]
                while trie.parents[path[-1]] >= 0:
                    path.append(int(trie.parents[path[-1]]))
                assert seen == path[::-1]
            cache.update({int(trie.depths[tile.start + k]): int(tile.start + k) for k in tile.kept})
            pairs += n * (tile.depth + n)
            expected = tile.stop
    assert expected == len(trie.tokens)
    assert cost(trie, limits) == (len(trie.tokens), pairs, len(predicting))
