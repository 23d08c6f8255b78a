"""What was computed is never computed again, and what is damaged is never believed."""

from __future__ import annotations

import errno
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from test_scoring import assert_same, branching_requests
from tiny_models import WINDOW, tiny_model
from transformers import PreTrainedModel

from backfire.errors import UserError
from backfire.scoring import Refusal, Request, Score, score
from backfire.scoring import store as store_module
from backfire.scoring.store import ScoreStore, cached_score, key_of

REQUESTS = branching_requests(seed=11)
DISTINCT = len(set(REQUESTS))


def load() -> PreTrainedModel:
    return tiny_model("llama")


def never() -> PreTrainedModel:
    raise AssertionError("nothing was left to compute")


@pytest.fixture
def store(tmp_path: Path) -> ScoreStore:
    return ScoreStore(tmp_path, "f" * 64, "float32")


def test_a_second_run_computes_nothing_and_gives_the_same_numbers(store: ScoreStore) -> None:
    first = cached_score(load, WINDOW, REQUESTS, store, pack_tokens=16)
    assert (first.hits, first.computed) == (0, DISTINCT)
    assert_same(first.results, score(load(), REQUESTS))
    second = cached_score(never, WINDOW, REQUESTS[::-1], store)
    assert (second.hits, second.computed) == (DISTINCT, 0)
    for a, b in zip(first.results, second.results[::-1], strict=True):
        assert isinstance(a, Score)
        assert isinstance(b, Score)
        assert a.token_logprobs.tolist() == b.token_logprobs.tolist()
        assert a.argmax_match.tolist() == b.argmax_match.tolist()
        assert (a.next_argmax, a.min_gap) == (b.next_argmax, b.min_gap)


def test_new_requests_alone_are_computed(store: ScoreStore) -> None:
    cached_score(load, WINDOW, REQUESTS, store)
    new = Request((9, 9, 9), (1, 2))
    answers = cached_score(load, WINDOW, [new, *REQUESTS, new], store)
    assert (answers.hits, answers.computed) == (DISTINCT, 1)
    assert_same(answers.results, score(load(), [new, *REQUESTS, new]))


def test_the_seam_between_context_and_continuation_is_part_of_the_key() -> None:
    assert key_of(Request((1, 2), (3,))) != key_of(Request((1,), (2, 3)))
    assert key_of(Request((1, 2), (3,))) == key_of(Request((1, 2), (3,)))


def test_other_models_dtypes_and_code_have_stores_of_their_own(
    tmp_path: Path, store: ScoreStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    cached_score(load, WINDOW, REQUESTS, store)
    others = [ScoreStore(tmp_path, "e" * 64, "float32"), ScoreStore(tmp_path, "f" * 64, "bfloat16")]
    monkeypatch.setattr(store_module, "digest_of", lambda *_: "other code")
    others.append(ScoreStore(tmp_path, "f" * 64, "float32"))
    keys = {key_of(r) for r in REQUESTS}
    assert len(store.read(keys)) == DISTINCT
    assert [other.read(keys) for other in others] == [{}, {}, {}]


def test_refusals_are_given_and_not_stored(store: ScoreStore) -> None:
    requests = [Request((1,), ()), Request((1,) * WINDOW, (2,))]
    answers = cached_score(never, WINDOW, requests, store)
    assert answers.results[0] == Refusal("empty continuation")
    assert isinstance(answers.results[1], Refusal)
    assert not store.folder.exists()


def test_a_killed_run_keeps_the_packs_that_it_finished(store: ScoreStore) -> None:
    write, written = store.write, 0

    def dies(scores: dict[bytes, Score]) -> None:
        nonlocal written
        if written:
            raise KeyboardInterrupt
        written += len(scores)
        write(scores)

    store.write = dies  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        cached_score(load, WINDOW, REQUESTS, store, pack_tokens=16)
    store.write = write  # type: ignore[method-assign]
    answers = cached_score(load, WINDOW, REQUESTS, store)
    assert 0 < written < DISTINCT
    assert (answers.hits, answers.computed) == (written, DISTINCT - written)


@pytest.mark.parametrize("damage", ["truncated", "flipped", "empty", "foreign"])
def test_a_damaged_file_is_passed_over_with_a_warning(
    store: ScoreStore, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    expected = cached_score(load, WINDOW, REQUESTS, store, pack_tokens=1000)
    (path,) = store.folder.glob("*.parquet")
    content = path.read_bytes()
    if damage == "foreign":
        pq.write_table(pq.read_table(path).drop(["min_gap"]), path)
    else:
        middle = len(content) // 3
        flipped = content[:middle] + bytes([content[middle] ^ 0xFF]) + content[middle + 1 :]
        path.write_bytes({"truncated": content[:-40], "flipped": flipped, "empty": b""}[damage])
    (store.folder / f".{path.name}.1-ab.tmp").write_bytes(content[:100])
    answers = cached_score(load, WINDOW, REQUESTS, store)
    assert (answers.hits, answers.computed) == (0, DISTINCT)
    assert str(path) in caplog.text
    assert_same(answers.results, expected.results)


def test_a_full_disk_is_one_line(store: ScoreStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(pq, "write_table", full)
    with pytest.raises(UserError, match="No space left on device") as caught:
        cached_score(load, WINDOW, REQUESTS, store)
    assert str(store.folder) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert list(store.folder.iterdir()) == []


def _write_many(store: ScoreStore, number: int) -> None:
    for i in range(20):
        value = np.array([-float(number)])
        score = Score(value, np.array([True]), next_argmax=i, min_gap=0.5)
        store.write({key_of(Request((number,), (i,))): score})


def test_jobs_can_write_at_once(store: ScoreStore) -> None:
    with ThreadPoolExecutor(3) as jobs:
        list(jobs.map(_write_many, [store] * 3, range(3)))
    keys = {key_of(Request((n,), (i,))): (n, i) for n in range(3) for i in range(20)}
    found = store.read(set(keys))
    assert {keys[key]: (s.logprob, s.next_argmax) for key, s in found.items()} == {
        (n, i): (-n, i) for n in range(3) for i in range(20)
    }
