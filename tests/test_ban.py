"""The ban is exact: no way to a banned action, and every other text as open as before."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from backfire.ban import Ending, Rule
from backfire.replies import CALL, PROGRAM

CALLS = (
    'write_file(path="notes/a.txt", content="x")',
    'write_file(path="notes/a.txt", content="xy")',
    'find_contact(name="Ana Ruiz")',
    "finish()",
    "é€",
    "",
)


@pytest.fixture(scope="session")
def tokenizer(bundled_model: Path) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(bundled_model)


@cache
def vocabulary(tokenizer: Any) -> dict[str, int]:
    """From what a token decodes to, to the token."""
    return {tokenizer.decode([token]): token for token in range(len(tokenizer))}


def make_rule(tokenizer: Any, reply: Any, banned: Sequence[str] = (), limit: int = 400) -> Rule:
    return Rule(
        decode=lambda ids: tokenizer.decode(ids, clean_up_tokenization_spaces=False),
        stop_ids=frozenset(tokenizer.all_special_ids),
        complete=reply.complete,
        action=reply.action,
        limit=limit,
        banned=frozenset(banned),
    )


def split(tokenizer: Any, text: str, rng: random.Random) -> list[int]:
    """A random tokenisation of the text: pieces of any length, each as its own tokens."""
    ids: list[int] = []
    start = 0
    while start < len(text):
        stop = start + rng.randrange(1, 9)
        piece = text[start:stop]
        known = vocabulary(tokenizer).get(piece)
        ids += [known] if known is not None else tokenizer(piece).input_ids
        start = stop
    return ids


def follow(rule: Rule, ids: Sequence[int]) -> tuple[bool, Ending | None, list[int]]:
    """Write the tokens: whether all were allowed, what ended the turn, the turn's tokens."""
    written: list[int] = []
    for token in ids:
        if not rule.allows(written, token):
            return False, None, written
        ending = rule.ending(written, token)
        if ending != "stop":
            written.append(token)
        if ending is not None:
            return True, ending, written
    return True, None, written


pieces = st.sampled_from([*CALLS, " ", "\n", "```", "```python\n", "Assistant: ", "x", ")", '"'])
texts = st.lists(pieces, max_size=4).map("".join) | st.text(max_size=12)
replies = st.sampled_from([CALL, PROGRAM])
quick = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))


@quick
@given(text=texts, reply=replies, banned=st.sets(st.sampled_from(CALLS)), seed=st.integers())
def test_a_turn_ends_as_no_banned_action_and_as_every_other(
    tokenizer: Any, text: str, reply: Any, banned: set[str], seed: int
) -> None:
    ids = split(tokenizer, text, random.Random(seed))
    for limit in (len(ids) + 1, max(1, len(ids))):  # by a stop, or at the length limit
        free = make_rule(tokenizer, reply, limit=limit)
        stopped = [*ids, tokenizer.eos_token_id]
        ended, ending, written = follow(free, stopped)
        assert ended and ending is not None
        action = reply.action(free.decode(written))
        allowed, same, way = follow(make_rule(tokenizer, reply, banned, limit), stopped)
        assert allowed == (action not in banned)
        if allowed:
            assert (same, way) == (ending, written)


@quick
@given(text=texts, reply=replies, seed=st.integers())
def test_nothing_on_the_way_is_forbidden(tokenizer: Any, text: str, reply: Any, seed: int) -> None:
    """Whatever is banned, a token that does not end the turn may always follow."""
    ids = split(tokenizer, text, random.Random(seed))
    everything = [reply.action(text[:end]) for end in range(len(text) + 1)]
    rule = make_rule(tokenizer, reply, everything)
    for position, token in enumerate(ids):
        if rule.ending(ids[:position], token) is not None:
            break
        assert rule.allows(ids[:position], token)


@quick
@given(ids=st.lists(st.integers(0, 49151), min_size=1, max_size=12), reply=replies)
def test_random_tokens_end_as_what_they_are_banned_from(
    tokenizer: Any, ids: list[int], reply: Any
) -> None:
    """Over arbitrary tokens, broken characters among them: banning the outcome closes the way."""
    stopped = [*ids, tokenizer.eos_token_id]
    free = make_rule(tokenizer, reply)
    _, _, written = follow(free, stopped)
    action = reply.action(free.decode(written))
    allowed, _, short = follow(free.banning(frozenset([action])), stopped)
    assert not allowed
    assert short == written[: len(short)]
    other = frozenset([action + "x", action[:-1] if action else "y"])
    assert follow(free.banning(other), stopped)[0]


@pytest.mark.parametrize(
    ("text", "action", "complete"),
    [
        ("finish()", "finish()", False),
        ("finish()\n", "finish()", True),
        ("\n\n finish() \nand more", "finish()", True),
        ("Assistant: finish()\n", "finish()", True),
        ("assistant\nfinish()", "finish()", False),
        ("```python\nfinish()", "finish()", False),
        ("```python\nfinish()\n```", "finish()", True),
        ("```\n\nfinish()\n", "finish()", True),
        ("Action: ```finish()```", "finish()", False),
        ("`finish()`", "finish()", False),
        ("```", "", False),
        ("", "", False),
        ("\n \n", "", False),
        ("Sure! Here is it.\nfinish()", "Sure! Here is it.", True),
        ('User: hello"', 'User: hello"', False),
    ],
)
def test_a_call_is_taken_out_of_its_line(text: str, action: str, complete: bool) -> None:
    assert CALL.action(text) == action
    assert CALL.complete(text) == complete


@pytest.mark.parametrize(
    ("text", "action"),
    [
        ("x = 1\n\ny = 2\n", "x = 1\n\ny = 2"),
        ("```python\nx = 1\n```\nThat is all.", "x = 1"),
        ("Here you are:\n```\nx = 1\n\n```", "x = 1"),
        ("```python\n    x = 1", "    x = 1"),
        ("Assistant: x = 1", "x = 1"),
        ("", ""),
    ],
)
def test_a_program_is_all_of_the_turn_or_its_fenced_part(text: str, action: str) -> None:
    assert PROGRAM.action(text) == action
    assert not PROGRAM.complete(text)
