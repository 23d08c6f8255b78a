"""One scoring job: items in, answers out, computing only what the store lacks."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from backfire.chat import Chat
from backfire.items import Item
from backfire.models import load_network, stop_ids
from backfire.provenance import versions
from backfire.scores import ask, tabulate
from backfire.scoring.store import ScoreStore, cached_score


def score_items(
    items: Sequence[Item],
    conditions: Iterable[str],
    folder: str | Path,
    card: Mapping[str, Any],
    store: str | Path,
    **options: Any,
) -> tuple[pa.Table, dict[str, Any]]:
    """Every question of the items under the conditions, answered, and how it was done.

    Args:
        folder: the model's folder.
        card: what identifies the model, as made by `models.card`.
        store: the folder of all score stores.
        options: for the scoring engine.

    Returns:
        Rows of `scores.SCORE_SCHEMA`, and the metadata of its shards.
    """
    start = time.perf_counter()
    chat = Chat.of(folder, card)
    questions = list(ask(items, conditions, chat))
    requests = [question.request for question in questions if question.request is not None]
    answers = cached_score(
        lambda: load_network(folder, card["dtype"], card["device"]),
        card["window"],
        requests,
        ScoreStore(store, card["fingerprint"], card["dtype"]),
        **options,
    )
    table = tabulate(questions, answers.results, stop_ids(folder, chat.tokenizer))
    made = {
        "model": dict(card),
        "versions": versions(),
        "reused": answers.hits,
        "computed": answers.computed,
        "seconds": round(time.perf_counter() - start, 3),
    }
    return table, made
