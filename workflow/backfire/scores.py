"""Score shards: what is asked of the scorer for each item, and how its answers are stored."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from backfire.chat import Chat, Encoded
from backfire.conditions import CONDITIONS
from backfire.items import Item
from backfire.scoring import Refusal, Request, Score

SCORE_SCHEMA = pa.schema(
    [
        pa.field("item_id", pa.string(), nullable=False),
        pa.field("condition", pa.string(), nullable=False),
        # failed, gold, distractor_1, distractor_2
        pa.field("candidate", pa.string(), nullable=False),
        pa.field("logprob", pa.float64()),  # nats; null when refused
        pa.field("refused", pa.string()),  # the reason, else null
        pa.field("n_tokens", pa.int32()),
        pa.field("n_bytes", pa.int32(), nullable=False),  # of the candidate, UTF-8
        pa.field("context_tokens", pa.int32()),
        pa.field("token_ids", pa.list_(pa.int32())),
        pa.field("token_starts", pa.list_(pa.int32())),  # character offsets into the candidate
        pa.field("token_logprobs", pa.list_(pa.float64())),
        pa.field("greedy_match", pa.bool_()),
        pa.field("greedy_stop", pa.bool_()),
        pa.field("min_gap", pa.float64()),
        pa.field("prompt_sha256", pa.string(), nullable=False),
        # the share of the candidate's words that stand in the prompt's last message
        pa.field("overlap", pa.float64()),
        pa.field("written", pa.string()),  # that message, where its text depends on the model
    ]
)


@dataclass(frozen=True)
class Question:
    """One candidate of an item under one condition, ready for the scorer or refused."""

    item_id: str
    condition: str
    candidate: str
    n_bytes: int
    prompt_sha256: str
    encoded: Encoded | Refusal
    overlap: float | None = None
    written: str | None = None

    @property
    def request(self) -> Request | None:
        if isinstance(self.encoded, Refusal):
            return None
        return Request(self.encoded.context_ids, self.encoded.continuation_ids)


def ask(items: Iterable[Item], conditions: Iterable[str], chat: Chat) -> Iterator[Question]:
    """Every question of the items under the conditions, item by item.

    An item that lacks what a condition needs has no question under it.
    """
    names = list(conditions)
    for item in items:
        for name in names:
            condition = CONDITIONS[name]
            messages = condition.write(item, chat)
            if messages is None:
                continue
            prompt = chat.render(messages)
            sha256 = hashlib.sha256(prompt.encode("utf-8", "surrogatepass")).hexdigest()
            altered = chat.altered(messages, prompt)
            last = messages[-1]["content"]
            written = last if condition.by_model else None
            for candidate, action in condition.candidates(item, chat).items():
                encoded: Encoded | Refusal
                if altered is not None:
                    encoded = Refusal(altered)
                elif chat.has_marker(action):
                    encoded = Refusal("the action holds a special token of the tokenizer")
                else:
                    encoded = chat.encode(prompt, action)
                n_bytes = len(action.encode("utf-8", "surrogatepass"))
                yield Question(
                    item.item_id,
                    name,
                    candidate,
                    n_bytes,
                    sha256,
                    encoded,
                    overlap(action, last),
                    written,
                )


def overlap(action: str, text: str) -> float | None:
    """The share of the action's words that also stand in the text; None for an action of none.

    A word is a run of letters, digits and underscores, in upper or lower case alike.
    """
    words = _words(action)
    return len(words & _words(text)) / len(words) if words else None


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.lower()))


def tabulate(
    questions: Sequence[Question],
    answers: Sequence[Score | Refusal],
    stop_ids: Collection[int],
) -> pa.Table:
    """Questions and the scorer's answers to those with a request, in order, as a table."""
    remaining = iter(answers)
    rows = []
    for question in questions:
        encoded = question.encoded
        answer = encoded if isinstance(encoded, Refusal) else next(remaining)
        row: dict[str, object] = {
            "item_id": question.item_id,
            "condition": question.condition,
            "candidate": question.candidate,
            "n_bytes": question.n_bytes,
            "prompt_sha256": question.prompt_sha256,
            "overlap": question.overlap,
            "written": question.written,
        }
        if isinstance(encoded, Encoded):
            row["n_tokens"] = len(encoded.continuation_ids)
            row["context_tokens"] = len(encoded.context_ids)
            row["token_ids"] = encoded.continuation_ids
            row["token_starts"] = encoded.starts
        if isinstance(answer, Refusal):
            row["refused"] = answer.reason
        else:
            row["logprob"] = answer.logprob
            row["token_logprobs"] = answer.token_logprobs
            row["greedy_match"] = answer.greedy_match
            row["greedy_stop"] = answer.greedy_match and answer.next_argmax in stop_ids
            row["min_gap"] = answer.min_gap
        rows.append(row)
    if next(remaining, None) is not None:
        raise ValueError("more answers than questions")
    return pa.Table.from_pylist(rows, schema=SCORE_SCHEMA)
