"""Stored scores against the plain loop that defines them."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from backfire.chat import Chat
from backfire.items import Item
from backfire.models import load_network
from backfire.scores import ask
from backfire.scoring import Score, reference

TOLERANCE = 1e-3
"""Nats per string within which the packed scorer and the plain loop agree, in float32."""


def check(
    stored: pa.Table,
    items: Iterable[Item],
    folder: str | Path,
    card: Mapping[str, Any],
    pairs: int,
    seed: int,
) -> dict[str, Any]:
    """Repeat a random sample of stored scores one forward pass at a time.

    Greedy flags are compared where every top-2 gap of the string exceeds the tolerance.
    """
    rows = [row for row in stored.to_pylist() if row["logprob"] is not None]
    rows.sort(key=lambda row: (row["item_id"], row["condition"], row["candidate"]))
    sample = random.Random(f"check/{seed}").sample(rows, min(pairs, len(rows)))
    by_id = {item.item_id: item for item in items}
    chat = Chat.load(folder, card["chat"]["template_options"])
    questions = [_question(by_id[row["item_id"]], row, chat) for row in sample]
    requests = [q.request for q in questions if q.request is not None]
    scores = reference.score(load_network(folder, card["dtype"]), requests)
    return compare(sample, [score for score in scores if isinstance(score, Score)])


def compare(stored: Sequence[Mapping[str, Any]], fresh: Sequence[Score]) -> dict[str, Any]:
    """The largest difference and whether all agree; the two go row by row."""
    pairs = list(zip(stored, fresh, strict=True))
    largest = max((abs(row["logprob"] - score.logprob) for row, score in pairs), default=0.0)
    differing = sum(
        row["greedy_match"] != score.greedy_match
        for row, score in pairs
        if min(row["min_gap"], score.min_gap) > TOLERANCE
    )
    return {
        "pairs": len(pairs),
        "max_difference": largest,
        "greedy_differences": differing,
        "tolerance": TOLERANCE,
        "ok": largest <= TOLERANCE and differing == 0,
    }


def _question(item: Item, row: Mapping[str, Any], chat: Chat) -> Any:
    for question in ask([item], [row["condition"]], chat):
        if question.candidate == row["candidate"]:
            if question.prompt_sha256 != row["prompt_sha256"]:
                raise ValueError(f"{row['item_id']}: the stored prompt is another one")
            return question
    raise ValueError(f"{row['item_id']}: no {row['candidate']} under {row['condition']}")
