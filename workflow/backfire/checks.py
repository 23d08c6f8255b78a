"""A sample of stored scores, scored once more.

`check` sets them against the plain loop that defines them; `drift` against what the scorer gives
today, on this machine and with these libraries.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from backfire.chat import Chat
from backfire.items import Item
from backfire.models import fingerprint, load_network
from backfire.provenance import versions
from backfire.scores import Question, ask
from backfire.scoring import Score, reference, score

TOLERANCE = {"float32": 1e-3, "bfloat16": 2.0, "float16": 0.25}
"""Nats per string within which two ways to score the same string agree, by number format.

In half precision every way of cutting the products rounds otherwise, so little can be asked."""

Row = Mapping[str, Any]


def check(
    stored: pa.Table,
    items: Iterable[Item],
    folder: str | Path,
    card: Mapping[str, Any],
    pairs: int,
    seed: int,
) -> dict[str, Any]:
    """Repeat a random sample of stored scores one forward pass at a time.

    Raises:
        ValueError: a stored prompt is not the one that its item has.
    """
    sample = draw(stored, pairs, seed)
    questions = ask_again(sample, items, Chat.of(folder, card))
    for row, question in zip(sample, questions, strict=True):
        if _changed(row, question):
            raise ValueError(f"{row['item_id']}: the stored prompt is another one")
    requests = [one.request for one in questions if one is not None and one.request is not None]
    network = load_network(folder, card["dtype"], card["device"])
    fresh = [one for one in reference.score(network, requests) if isinstance(one, Score)]
    return compare(sample, fresh, TOLERANCE[card["dtype"]])


def drift(
    stored: pa.Table,
    made: Mapping[str, Any],
    items: Iterable[Item],
    folder: str | Path,
    card: Mapping[str, Any],
    pairs: int,
    seed: int,
) -> dict[str, Any]:
    """Repeat a random sample of stored scores as they were made, past the score store.

    Args:
        made: how the stored scores were made, from the metadata of a shard.

    Returns:
        As `compare`, of the scores whose prompt and tokens are what they were; how many are not;
        and which versions, weights and device are others now.
    """
    sample = draw(stored, pairs, seed)
    questions = ask_again(sample, items, Chat.of(folder, card))
    same = [not _changed(*pair) for pair in zip(sample, questions, strict=True)]
    kept = [row for row, unchanged in zip(sample, same, strict=True) if unchanged]
    requests = [
        question.request
        for question, unchanged in zip(questions, same, strict=True)
        if unchanged and question is not None and question.request is not None
    ]
    network = load_network(folder, card["dtype"], card["device"])
    fresh = [one for one in score(network, requests) if isinstance(one, Score)]
    result = compare(kept, fresh, TOLERANCE[card["dtype"]])
    other_prompts = len(sample) - len(kept)
    return {
        **result,
        "other_prompts": other_prompts,
        "ok": result["ok"] and other_prompts == 0,
        "changed": _differences(_surroundings(made), _now(folder, card)),
    }


def statement(name: str, result: Mapping[str, Any]) -> str:
    """What `drift` found, in one line."""
    changed = ", ".join(f"{key} {old} → {new}" for key, (old, new) in result["changed"].items())
    return (
        f"{name}: {result['pairs']} stored scores, largest difference "
        f"{result['max_difference']:.2g} nats ({result['tolerance']:g} are allowed), "
        f"{result['greedy_differences']} greedy flags and {result['other_prompts']} prompts "
        f"differ; since then {changed or 'nothing'} changed"
    )


def draw(stored: pa.Table, pairs: int, seed: int) -> list[Row]:
    """A random sample of the scores, refusals left out."""
    rows = [row for row in stored.to_pylist() if row["logprob"] is not None]
    rows.sort(key=lambda row: (row["item_id"], row["condition"], row["candidate"]))
    return random.Random(f"check/{seed}").sample(rows, min(pairs, len(rows)))


def ask_again(sample: Sequence[Row], items: Iterable[Item], chat: Chat) -> list[Question | None]:
    """What each stored row was the answer to, asked today; None where nothing is asked any more."""
    by_id = {item.item_id: item for item in items}
    found: list[Question | None] = []
    for row in sample:
        asked = ask([by_id[row["item_id"]]], [row["condition"]], chat)
        found.append(next((one for one in asked if one.candidate == row["candidate"]), None))
    return found


def _changed(row: Row, question: Question | None) -> bool:
    if question is None or question.request is None:
        return True
    return question.prompt_sha256 != row["prompt_sha256"] or (
        list(question.request.continuation_ids) != list(row["token_ids"])
    )


def compare(stored: Sequence[Row], fresh: Sequence[Score], tolerance: float) -> dict[str, Any]:
    """The largest difference and whether all agree; the two go row by row.

    Greedy flags are compared where every top-2 gap of the string exceeds the tolerance.
    """
    pairs = list(zip(stored, fresh, strict=True))
    largest = max((abs(row["logprob"] - one.logprob) for row, one in pairs), default=0.0)
    differing = sum(
        row["greedy_match"] != one.greedy_match
        for row, one in pairs
        if min(row["min_gap"], one.min_gap) > tolerance
    )
    return {
        "pairs": len(pairs),
        "max_difference": largest,
        "greedy_differences": differing,
        "tolerance": tolerance,
        "ok": largest <= tolerance and differing == 0,
    }


def _surroundings(made: Mapping[str, Any]) -> dict[str, Any]:
    model = made["model"]
    return {
        **made["versions"],
        "device": model.get("device"),
        "dtype": model["dtype"],
        "weights": model["fingerprint"][:16],
        "template": model["chat"]["template_sha256"][:16],
    }


def _now(folder: str | Path, card: Mapping[str, Any]) -> dict[str, Any]:
    current = {**card, "fingerprint": fingerprint(folder)}
    return _surroundings({"model": current, "versions": versions()})


def _differences(then: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, list[Any]]:
    """By name, what was and what is, where they differ."""
    return {
        key: [then.get(key), now.get(key)]
        for key in sorted({*then, *now})
        if then.get(key) != now.get(key)
    }
