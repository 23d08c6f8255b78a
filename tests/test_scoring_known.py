"""Answers that are known beforehand, through the whole pipeline, from models made for it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
import torch
from transformers import PreTrainedModel, SmolLM3Config, SmolLM3ForCausalLM

from backfire.chat import Chat
from backfire.conditions import CONDITIONS, Condition
from backfire.environments import KINDS
from backfire.items import Item, to_table
from backfire.measures import measure
from backfire.scores import ask, tabulate
from backfire.scoring import Request, score

CORE = ("pre", "fail", "succ", "neut", "abstract")
CODE, MARK, ONE = slice(0, 32), 32, 33


@pytest.fixture(scope="module")
def chat(bundled_model: Path) -> Chat:
    return Chat.load(bundled_model)


@pytest.fixture(scope="module")
def items() -> list[Item]:
    return list(KINDS["toolshed"].build_pool({}, 1).items[::60])


def one_layer(vocabulary: int) -> PreTrainedModel:
    """A model of one attention layer without positions, all of its weights zero."""
    config = SmolLM3Config(
        vocab_size=vocabulary,
        hidden_size=64,
        intermediate_size=1,
        num_hidden_layers=1,
        num_attention_heads=1,
        num_key_value_heads=1,
        no_rope_layers=[0],
        max_position_embeddings=8192,
        tie_word_embeddings=False,
        pad_token_id=0,
    )
    network = SmolLM3ForCausalLM(config).eval()
    for name, parameter in network.named_parameters():
        torch.nn.init.constant_(parameter, 1.0 if "norm" in name else 0.0)
    return network


def copier(vocabulary: int, marked: set[int]) -> PreTrainedModel:
    """It attends to the marked tokens, wherever they stand, and predicts what it sees there."""
    network = one_layer(vocabulary)
    codes = torch.randint(0, 2, (vocabulary, 32), generator=torch.Generator().manual_seed(0)) * 2.0
    layer = network.model.layers[0].self_attn
    with torch.no_grad():
        embedding = network.model.embed_tokens.weight
        embedding[:, CODE] = codes - 1
        embedding[:, ONE] = 1
        embedding[sorted(marked), MARK] = 1
        layer.q_proj.weight[0, ONE] = 1e3
        layer.k_proj.weight[0, MARK] = 1e3  # exp underflows for every other token: its weight is 0
        layer.v_proj.weight[CODE, CODE] = torch.eye(32)
        layer.o_proj.weight[CODE, CODE] = torch.eye(32)
        network.lm_head.weight[:, CODE] = codes - 1
    return network


def measures(
    make: Callable[[list[Request]], PreTrainedModel], items: list[Item], chat: Chat
) -> pd.DataFrame:
    """The measures of the items, by item, under a model made for their requests."""
    questions = list(ask(items, CORE, chat))
    requests = [question.request for question in questions]
    assert None not in requests
    given = [request for request in requests if request is not None]
    answers = score(make(given), given)
    table = tabulate(questions, answers, stop_ids=[2])
    values = measure(table.to_pandas(), to_table(items).to_pandas())
    wide: pd.DataFrame = values.pivot(index="item_id", columns="measure", values="value")
    assert len(wide) == len(items)
    return wide


def test_under_uniform_logits_nothing_has_an_effect(chat: Chat, items: list[Item]) -> None:
    wide = measures(lambda _: one_layer(len(chat.tokenizer)), items, chat)
    for name in ("G", "copy", "sem", "copy_succ", "polarity", "G_abstract"):
        assert wide[name].abs().max() < 1e-9, name


def test_a_model_that_only_copies_the_last_call_has_no_sem(chat: Chat, items: list[Item]) -> None:
    for item in items[:2]:

        def make(requests: list[Request], item: Item = item) -> PreTrainedModel:
            call = chat.encode("", item.failed_action).continuation_ids
            elsewhere = {
                token
                for question in ask([item], ["pre"], chat)
                for token in question.request.context_ids
            }
            for text in item.observations.values():
                elsewhere.update(chat.tokenizer(text).input_ids)
            marked = set(call) - elsewhere
            assert marked
            return copier(len(chat.tokenizer), marked)

        wide = measures(make, [item], chat)
        assert wide["sem"].abs().max() < 1e-3
        assert wide["polarity"].abs().max() < 1e-3
        assert wide["copy"].min() > 1
        assert wide["G"].max() < -1
        assert wide["G_abstract"].abs().max() < wide["copy"].min() / 4


def test_one_condition_under_two_names_gives_identical_scores(
    chat: Chat, items: list[Item], monkeypatch: pytest.MonkeyPatch
) -> None:
    fail = CONDITIONS["fail"]
    twin = Condition(**{**vars(fail), "name": "fail_again"})
    monkeypatch.setitem(CONDITIONS, "fail_again", twin)
    questions = list(ask(items[:2], ["fail", "pre", "fail_again"], chat))
    requests = [question.request for question in questions if question.request is not None]
    network = copier(len(chat.tokenizer), {t for r in requests for t in r.continuation_ids})
    table = tabulate(questions, score(network, requests), stop_ids=[2]).to_pandas()
    by_condition = {
        name: rows.drop(columns="condition").reset_index(drop=True)
        for name, rows in table.groupby("condition")
    }
    assert len(by_condition["fail"]) == 2 * 4
    pd.testing.assert_frame_equal(by_condition["fail"], by_condition["fail_again"])
    assert not by_condition["fail"]["logprob"].equals(by_condition["pre"]["logprob"])
