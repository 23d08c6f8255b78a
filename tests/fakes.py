"""A small study made of numbers from a seed: items, scores and estimates in the real schemas."""

from __future__ import annotations

import functools
import itertools
import re
import zlib
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pandas as pd

from backfire.conditions import CONDITIONS, Message
from backfire.estimates import Statistics, estimate
from backfire.items import Item, Turn, to_table
from backfire.measures import measure
from backfire.scores import SCORE_SCHEMA

FAMILIES = ("permission_error", "contact_not_found", "format_error", "unknown_tool")
OPERATORS = ("readonly_target", "hallucinated_entity", "date_format", "tool_typo")
EFFECT = {"pre": 0.0, "fail": 1.2, "succ": 1.0, "neut": 1.1, "abstract": 0.15}


def items(tasks: int = 12, hostile: bool = False) -> list[Item]:
    """Two items per task, families and operators in turn."""
    made = []
    for number in range(2 * tasks):
        name = f"Ann{number}"
        evil = "</script><b>|x|</b> {{ 7*7 }} ${boom}" if hostile else name
        action = f'send_message(to="{name}@ex.org", subject="Lunch", body={evil!r})'
        made.append(
            Item(
                item_id=f"item-{number:03d}",
                task_id=f"task-{number // 2:02d}",
                operator=OPERATORS[number % 4],
                error_family=FAMILIES[number % 4],
                tool="send_message",
                system="You are an agent. Reply with one call.",
                goal=f"Ask {evil} to lunch.",
                history=(Turn(f'find_contact(name="{name}")', f"{name}@ex.org"),),
                failed_action=action,
                gold_action=f'send_message(to="{name}@ex.org", subject="Lunch", body="Hi")',
                distractors=("finish()", f'read_file(path="{name}.txt")'),
                observations={
                    "fail": f"ERROR: no such contact: {evil}",
                    "succ": "OK: sent",
                    "neut": "Received.",
                },
            )
        )
    return made


def scores(drawn: Iterable[Item], strength: float = 1.0, seed: int = 0) -> pd.DataFrame:
    """Scores whose failed call gains `strength` x EFFECT nats per token under each condition."""
    rng = np.random.default_rng(seed)
    rows = []
    for item in drawn:
        for candidate, text in item.candidates.items():
            pieces = re.findall(r"\w+|[^\w]", text)
            starts = [0, *itertools.accumulate(map(len, pieces))][:-1]
            base = -rng.gamma(1.5, 1.6, len(starts)) - 0.2
            for condition, effect in EFFECT.items():
                if candidate != "failed" and not CONDITIONS[condition].every_candidate:
                    continue
                push = strength * effect * (candidate == "failed")
                logprobs = base - push * base / 2.5 + rng.normal(0, 0.05, len(starts))
                logprobs = np.minimum(logprobs, -1e-4)
                rows.append(
                    {
                        "item_id": item.item_id,
                        "condition": condition,
                        "candidate": candidate,
                        "logprob": float(logprobs.sum()),
                        "refused": None,
                        "n_tokens": len(starts),
                        "n_bytes": len(text.encode()),
                        "context_tokens": 100,
                        "token_ids": [zlib.crc32(piece.encode()) % 50_000 for piece in pieces],
                        "token_starts": starts,
                        "token_logprobs": logprobs.tolist(),
                        "greedy_match": condition == "fail" and candidate == "failed",
                        "greedy_stop": False,
                        "min_gap": 0.3,
                        "prompt_sha256": "0" * 64,
                        "overlap": 0.5,
                        "written": None,
                    }
                )
    return pd.DataFrame(rows, columns=SCORE_SCHEMA.names)


STATISTICS = Statistics(seed=1, resamples=200)


@functools.cache
def measures(tasks: int = 12, strength: float = 1.0, seed: int = 0) -> pd.DataFrame:
    """Measures of fake scores. Copy before changing."""
    drawn = items(tasks)
    return measure(scores(drawn, strength, seed), to_table(drawn).to_pandas())


@functools.cache
def _estimates(tasks: int, strength: float, seed: int) -> pd.DataFrame:
    return estimate(measures(tasks, strength, seed), "model", "environment", STATISTICS)


def estimates(
    model: str, environment: str, tasks: int = 12, strength: float = 1.0, seed: int = 0
) -> pd.DataFrame:
    """Estimates of fake measures by the real bootstrap."""
    return _estimates(tasks, strength, seed).assign(model=model, environment=environment)


CARD = {
    "source": "bundled:fake",
    "architecture": "llama",
    "weights": "4-bit Q4_1 weights",
    "dtype": "float32",
    "fingerprint": "ab" * 32,
    "parameters": 134_515_008,
    "published_as": None,
    "chat": {"template_sha256": "cd" * 32, "system": "native"},
}


class Chat:
    """A chat whose template shows role and content as they are."""

    has_tool_role = False

    def count_tokens(self, text: str) -> int:
        return len(text.split())

    def native_call(self, tool: str, arguments: Mapping[str, object]) -> None:
        """The template has no form for calls."""

    def render(self, messages: Sequence[Message]) -> str:
        turns = [f"[{message['role']}]\n{message['content']}\n" for message in messages]
        return "".join(turns) + "[assistant]\n"
