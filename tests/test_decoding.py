"""Turns written together are those that each would be alone, for every architecture."""

from __future__ import annotations

import copy
import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from tiny_models import ARCHITECTURES, tiny_model

from backfire.ban import Rule
from backfire.decoding import NEAR_TIE, Decoder, Turn, Written, common_prefix
from backfire.scoring.head import NonFiniteLogits


def text_of(ids: Sequence[int]) -> str:
    return " ".join(map(str, ids))


def rule(limit: int = 12, banned: Sequence[str] = (), stops: Sequence[int] = (2, 3)) -> Rule:
    return Rule(
        decode=text_of,
        stop_ids=frozenset(stops),
        complete=lambda text: text.endswith(" 7") or text == "7",
        action=str.strip,
        limit=limit,
        banned=frozenset(banned),
    )


@torch.inference_mode()
def plain(network: Any, prompt: Sequence[int], rule: Rule) -> tuple[list[int], bool]:
    """Greedy decoding without any cache, and whether rounding may have decided somewhere."""
    ids: list[int] = []
    tied = False
    while True:
        logits = network(torch.tensor([[*prompt, *ids]]), use_cache=False).logits[0, -1].clone()
        while not rule.allows(ids, token := int(logits.argmax())):
            logits[token] = -torch.inf
        best, second = logits.topk(2).values.tolist()
        tied |= best - second < NEAR_TIE
        ending = rule.ending(ids, token)
        if ending == "stop":
            return ids, tied
        ids.append(token)
        if ending is not None:
            return ids, tied


def conversations(seed: int, rows: int, turns: int) -> list[list[tuple[int, ...]]]:
    """For each row its prompts: they grow, shrink, and change their tails; all start alike."""
    rng = random.Random(seed)
    start = tuple(rng.randrange(10, 61) for _ in range(9))
    found = []
    for _ in range(rows):
        text = list(start) + rng.choices(range(10, 13), k=rng.randrange(1, 9))
        prompts = []
        for _ in range(turns):
            prompts.append(tuple(text))
            kept = rng.randrange(len(start), len(text) + 1)
            text = text[:kept] + rng.choices(range(10, 61), k=rng.randrange(1, 20))
        found.append(prompts)
    return found


def write_all(
    network: Any, found: list[list[tuple[int, ...]]], rules: Sequence[Rule], **options: Any
) -> list[list[Written]]:
    """Every conversation, turn by turn, all rows in one call."""
    decoder = Decoder(network, common_prefix([prompts[0] for prompts in found]))
    results: list[list[Written]] = [[] for _ in found]
    for step in range(len(found[0])):
        turns = [
            Turn(row, prompts[step], rules[row], noise=f"0/{row}/{step}", **options)
            for row, prompts in enumerate(found)
        ]
        for row, written in enumerate(decoder.write(turns)):
            results[row].append(written)
    return results


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_rows_equal_plain_decoding(architecture: str) -> None:
    network = tiny_model(architecture)
    found = conversations(seed=1, rows=5, turns=3)
    rules = [rule(limit) for limit in (12, 5, 12, 1, 9)]
    written = write_all(network, found, rules)
    compared = 0
    for row, prompts in enumerate(found):
        for step, prompt in enumerate(prompts):
            ids, tied = plain(network, prompt, rules[row])
            if not tied:
                assert list(written[row][step].ids) == ids
                compared += 1
    assert compared >= 12


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_company_does_not_matter(architecture: str) -> None:
    network = tiny_model(architecture)
    temperature = 1.0
    found = conversations(seed=2, rows=4, turns=3)
    rules = [rule()] * 4
    together = write_all(network, found, rules, temperature=temperature)
    decoder = Decoder(network)
    for row, prompts in enumerate(found):
        for step, prompt in enumerate(prompts):
            turn = Turn(0, prompt, rules[row], temperature, f"0/{row}/{step}")
            [alone] = decoder.write([turn])
            if not alone.near_ties + together[row][step].near_ties:
                assert alone.ids == together[row][step].ids
                assert alone.ending == together[row][step].ending


def test_what_is_in_the_cache_is_not_pushed_again() -> None:
    network = tiny_model("llama")
    prompt = tuple(range(10, 40))
    decoder = Decoder(network, prompt[:5])
    [first] = decoder.write([Turn(0, prompt, rule())])
    assert first.pushed == 25
    longer = (*prompt, *first.ids[:-1], 50, 51, 52)
    [grown] = decoder.write([Turn(0, longer, rule())])
    assert grown.pushed == 3
    [cut] = decoder.write([Turn(0, (*prompt[:20], 55, 56), rule())])
    assert cut.pushed == 2
    [borrowed] = decoder.write([Turn(3, (*prompt[:20], 55, 57), rule())])
    assert borrowed.pushed == 1
    [same] = decoder.write([Turn(3, (*prompt[:20], 55, 57), rule())])
    assert (same.pushed, same.ids) == (1, borrowed.ids)


def test_a_longer_prompt_does_not_borrow_what_a_shorter_one_has_not_pushed() -> None:
    network = tiny_model("qwen2")
    short = tuple(range(10, 22))
    longer = (*short, 30, 31, 32)
    both = Decoder(network).write([Turn(0, short, rule()), Turn(1, longer, rule())])
    [alone] = Decoder(network).write([Turn(0, longer, rule())])
    assert both[1].ids == alone.ids


def test_a_sample_follows_its_distribution_and_its_noise() -> None:
    network = tiny_model("llama")
    prompt = tuple(range(10, 16))
    decoder = Decoder(network)
    turns = [Turn(row, prompt, rule(1, stops=()), 1.5, f"{row}") for row in range(400)]
    first = [written.ids[0] for written in decoder.write(turns)]
    with torch.inference_mode():
        logits = network(torch.tensor([prompt])).logits[0, -1]
    expected = torch.softmax(logits / 1.5, -1).numpy()
    seen = np.bincount(first, minlength=len(expected)) / len(first)
    top = expected.argsort()[-5:]
    error = np.sqrt(expected * (1 - expected) / len(first))
    assert (np.abs(seen - expected)[top] < 4 * error[top] + 1e-9).all()
    assert len(set(first)) > 3
    [again] = decoder.write([Turn(0, prompt, rule(1, stops=()), 1.5, "17")])
    assert again.ids[0] == first[17]


def test_a_penalty_that_a_checkpoint_ships_changes_nothing() -> None:
    network = tiny_model("llama")
    penalised = copy.deepcopy(network)
    penalised.generation_config.repetition_penalty = 3.0
    penalised.generation_config.suppress_tokens = list(range(30))
    turn = Turn(0, tuple(range(10, 30)), rule(20, stops=()))
    assert Decoder(penalised).write([turn]) == Decoder(network).write([turn])


def test_ties_go_to_the_lowest_token_and_are_counted() -> None:
    [written] = Decoder(tiny_model("uniform")).write([Turn(0, (5, 6), rule(4, stops=()))])
    assert written.ids == (0, 0, 0, 0)
    assert written.near_ties == 4


def test_a_ban_leads_around_the_action_alone() -> None:
    network = tiny_model("llama")
    prompt = tuple(range(20, 30))
    free, _ = plain(network, prompt, rule(6))
    banned = rule(6, [text_of(free)])
    [written] = Decoder(network).write([Turn(0, prompt, banned)])
    expected, _ = plain(network, prompt, banned)
    assert list(written.ids) == expected != free
    shared = min(len(free), len(expected)) - 1
    assert expected[:shared] == free[:shared], "nothing before the end is forbidden"


def test_what_cannot_be_written_is_refused() -> None:
    network = tiny_model("llama")
    decoder = Decoder(network, (1, 2, 3))
    with pytest.raises(ValueError, match="begin with the decoder's prefix"):
        decoder.write([Turn(0, (1, 2, 4, 5), rule())])
    with pytest.raises(ValueError, match="begin with the decoder's prefix"):
        decoder.write([Turn(0, (1, 2, 3), rule())])
    with pytest.raises(ValueError, match="share a row"):
        decoder.write([Turn(0, (1, 2, 3, 4), rule())] * 2)
    with pytest.raises(ValueError, match="window"):
        decoder.write([Turn(0, (1, 2, 3) * 90, rule())])
    with pytest.raises(NonFiniteLogits):
        Decoder(tiny_model("broken")).write([Turn(0, (5, 6), rule())])
    assert decoder.write([]) == []
