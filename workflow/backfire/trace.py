"""Which tokens of the failed call gain, and what kind of token they are."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import asdict

import numpy as np
import pandas as pd

from backfire.bootstrap import Sample
from backfire.estimates import Statistics, estimate_sample
from backfire.items import Item
from backfire.measures import find

KINDS = ("tool name", "argument name", "value", "punctuation", "text")


def token_texts(text: str, starts: Sequence[int]) -> list[str]:
    """The piece of `text` from each token's first character to the next token's.

    Tokens inside one character (bytes of an emoji) share its start; the last of them has it.
    """
    ends = [*starts, len(text)][1:]
    return [text[start:end] for start, end in zip(starts, ends, strict=True)]


def token_kinds(action: str, starts: Sequence[int]) -> list[str]:
    """The kind of each token of a call, by its first character that is not a space.

    An action that is not one Python-style call is `text` throughout.
    """
    kinds = _character_kinds(action)
    found = []
    for start, piece in zip(starts, token_texts(action, starts), strict=True):
        first = start + len(piece) - len(piece.lstrip())
        found.append(kinds[min(first, len(kinds) - 1)])
    return found


def _character_kinds(action: str) -> list[str]:
    try:
        call = ast.parse(action.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ["text"] * max(len(action), 1)
    if not isinstance(call, ast.Call) or "\n" in action.strip():
        return ["text"] * max(len(action), 1)
    kinds = ["punctuation"] * len(action)
    shift = len(action) - len(action.lstrip())

    def paint(start: int, end: int | None, kind: str) -> None:
        encoded = action.strip().encode()
        first = shift + len(encoded[:start].decode())
        last = shift + len(encoded[:end].decode())
        kinds[first:last] = [kind] * (last - first)

    paint(call.func.col_offset, call.func.end_col_offset, "tool name")
    for value in call.args:
        paint(value.col_offset, value.end_col_offset, "value")
    for keyword in call.keywords:
        if keyword.arg is not None:
            end = keyword.col_offset + len(keyword.arg.encode())
            paint(keyword.col_offset, end, "argument name")
        paint(keyword.value.col_offset, keyword.value.end_col_offset, "value")
    return kinds


def token_gains(scores: pd.DataFrame, items: Sequence[Item]) -> pd.DataFrame:
    """How much likelier each token of the failed call is under each condition than under `pre`.

    Args:
        scores: rows of the score shards of one model and environment.
        items: the drawn items.

    Returns:
        One row per item, condition other than `pre` and token: `item_id task_id condition
        position kind text logprob gain`; `gain` in nats, above zero where the token became
        likelier. The gains of an item and condition add up to log P(a | condition) −
        log P(a | pre). Refused scores have no rows.
    """
    by_id = {item.item_id: item for item in items}
    failed = scores[(scores["candidate"] == "failed") & scores["logprob"].notna()]
    records = [row for row in failed.to_dict("records") if row["item_id"] in by_id]
    baseline = {r["item_id"]: r["token_logprobs"] for r in records if r["condition"] == "pre"}
    rows: list[tuple[object, ...]] = []
    for row in records:
        if row["condition"] == "pre" or row["item_id"] not in baseline:
            continue
        item = by_id[row["item_id"]]
        starts = [int(start) for start in row["token_starts"]]
        texts = token_texts(item.failed_action, starts)
        kinds = token_kinds(item.failed_action, starts)
        tokens = zip(texts, kinds, row["token_logprobs"], baseline[item.item_id], strict=True)
        for position, (text, kind, logprob, before) in enumerate(tokens):
            place = (item.item_id, item.task_id, row["condition"], position, kind, text)
            rows.append((*place, float(logprob), float(logprob - before)))
    columns = ["item_id", "task_id", "condition", "position", "kind", "text", "logprob", "gain"]
    return pd.DataFrame(rows, columns=columns)


def trace_of(
    scores: Mapping[tuple[str, str], pd.DataFrame],
    items: Mapping[str, Sequence[Item]],
    statistics: Statistics,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The traces of a study by position and by kind, with columns `model` and `environment`.

    Args:
        scores: by (model, environment), rows of the score shards.
        items: by environment, the drawn items.
    """
    traces: dict[str, list[pd.DataFrame]] = {"position": [], "kind": []}
    for (model, environment), rows in scores.items():
        gains = token_gains(rows, items[environment])
        for by, parts in traces.items():
            part = trace(gains, by, statistics, environment)
            parts.append(part.assign(model=model, environment=environment))
    return pd.concat(traces["position"]), pd.concat(traces["kind"])


FEWEST = 5
"""Calls that must reach a position, or hold a kind of token, for its mean to be shown."""


def trace(gains: pd.DataFrame, by: str, statistics: Statistics, environment: str) -> pd.DataFrame:
    """Mean gain of a token under each condition, by `position` or by `kind`.

    Each token weighs the same; the interval resamples tasks.

    Args:
        gains: rows of `token_gains`, one model and environment.
        by: the column to split by.

    Returns:
        `condition`, the column `by`, `mean ci_low ci_high n n_clusters status`, n counting tokens.
    """
    rows = []
    for (condition, value), part in gains.groupby(["condition", by], sort=True):
        if part["item_id"].nunique() < FEWEST:
            continue
        ones = np.ones(len(part))
        tasks = part["task_id"].to_numpy(dtype=object)
        sample = Sample(part["gain"].to_numpy(dtype="float64"), ones, tasks, ones)
        stream = (environment, "trace", by, str(value))
        cell = estimate_sample(find("G"), sample, statistics, stream)
        rows.append({"condition": condition, by: value, **asdict(cell)})
    columns = ["condition", by, "mean", "ci_low", "ci_high", "n", "n_clusters", "status"]
    return pd.DataFrame(rows, columns=columns)
