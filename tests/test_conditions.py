"""What each condition writes, to the letter, and what none of them may change."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import fakes
import pytest
from transformers import AutoTokenizer

from backfire.chat import Chat
from backfire.conditions import CONDITIONS, CORE, INSTRUCTION, LADDER, WORDINGS, Message
from backfire.conditions.controls import echoed
from backfire.conditions.padding import CLOSE, pad
from backfire.environments import KINDS
from backfire.examples import EXAMPLES
from backfire.items import Item, Turn, draw
from backfire.scores import ask, overlap
from backfire.scoring.plan import build_trie

ITEM = EXAMPLES["toolshed"]
PROGRAM = EXAMPLES["coderepair"]
BARE = Item("i", "t", "s", "g", (), "do it", {"fail": "no"})
"""What every item has, and no more."""


@pytest.fixture(scope="module")
def items() -> list[Item]:
    """The first items of the default study."""
    pool = KINDS["toolshed"].build_pool({"kind": "toolshed"}, 20260808).items
    return draw(pool, 40, 3, 20260808)


@pytest.fixture(scope="module")
def chat(bundled_model: Path) -> Chat:
    return Chat.load(bundled_model)


def wrote(name: str, item: Item = ITEM, ctx: Any = None) -> list[Message]:
    messages = CONDITIONS[name].write(item, ctx or fakes.Chat())
    assert messages is not None, name
    return messages


def tail(name: str, item: Item = ITEM, ctx: Any = None) -> list[str]:
    """What a condition writes after the history, when it leaves all before it alone."""
    messages, before = wrote(name, item, ctx), wrote("pre", item)
    assert messages[: len(before)] == before, name
    roles = [message["role"] for message in messages[len(before) :]]
    assert roles in (["assistant", "user"] * (len(roles) // 2), ["user"]), name
    return [message["content"] for message in messages[len(before) :]]


def test_the_core_prompts_are_what_they_were(items: list[Item]) -> None:
    """A change here changes every published number: scores of the core must be made anew."""
    found = {}
    for name in CORE:
        text = json.dumps([wrote(name, item) for item in items])
        found[name] = hashlib.sha256(text.encode()).hexdigest()[:16]
    assert found == {
        "pre": "2c612ca110dc40c5",
        "fail": "e32d600d5052a62e",
        "succ": "2c66aed480b21e68",
        "neut": "d2a1b2b0aea11bfb",
        "abstract": "5b67d1853a38621b",
    }


def test_the_published_variants() -> None:
    call, error = ITEM.failed_action, ITEM.observations["fail"]
    assert tail("fail_terse") == [call, ITEM.observations["terse"]]
    assert tail("fail_verbose") == [call, ITEM.observations["verbose"]]
    assert tail("fail_echo") == [call, ITEM.observations["echo"]]
    assert tail("fail_twice") == [call, error] * 2
    assert tail("fail_thrice") == [call, error] * 3
    assert ITEM.other is not None
    assert tail("fail_other") == list(ITEM.other)
    assert tail("abstract_min") == ["Note: an earlier attempt failed."]


def test_an_early_failure_stands_before_the_history_and_nothing_else_moves() -> None:
    early, late = wrote("fail_early"), wrote("fail")
    assert early == [*late[:2], *late[-2:], *late[2:-2]]
    assert CONDITIONS["fail_early"].write(BARE, fakes.Chat()) is None


def test_the_instruction_is_all_that_the_system_prompt_gains() -> None:
    for name, plain in (("fail_instruct", "fail"), ("pre_instruct", "pre")):
        system, *rest = wrote(name)
        assert system["content"] == f"{ITEM.system}\n\n{INSTRUCTION}"
        assert rest == wrote(plain)[1:]
    silent = Item("i", "t", "", "g", (), "x", {"fail": "no"})
    assert wrote("pre_instruct", silent)[0]["content"] == INSTRUCTION


def test_the_controls() -> None:
    assert ITEM.unrelated is not None
    assert tail("fail_unrelated") == list(ITEM.unrelated)
    assert tail("neut_unrelated") == [ITEM.unrelated.action, "Received."]
    placeholder, note = tail("abstract_turn")
    assert [note] == tail("abstract")
    assert ITEM.tool is not None and ITEM.tool not in placeholder


def test_an_echo_has_the_words_that_error_and_call_share() -> None:
    error = "Error: no event 'Board update' on 2026-11-11 at ten, (move_event)."
    call = 'move_event(title="Board update", date="2026-11-11")'
    assert echoed(error, call) == ["Board", "update", "2026-11-11", "move_event"]
    _, text = tail("neut_echo")
    assert text.rstrip(" .") == "Received. to send_message Ana Ruiz"


def test_a_mask_hides_what_it_says() -> None:
    error = ITEM.observations["terse"]
    assert tail("mask_value") == ['send_message(to=..., subject="Lunch", body="At noon?")', error]
    assert tail("mask_values") == ["send_message(to=..., subject=..., body=...)", error]
    assert tail("mask_arguments") == ["send_message(...)", error]
    for name in LADDER[2:-1]:
        assert CONDITIONS[name].write(PROGRAM, fakes.Chat()) is None
    # The ladder is compared by the odds of failed against gold, so both are scored.
    for name in LADDER:
        scored = CONDITIONS[name].candidates(ITEM, fakes.Chat())
        assert {"failed", "gold"} <= set(scored), name
    absent = Item(**{**vars_of(ITEM), "error": {"field": "nowhere"}})
    assert CONDITIONS["mask_value"].write(absent, fakes.Chat()) is None


def vars_of(item: Item) -> dict[str, Any]:
    return {name: getattr(item, name) for name in Item.__dataclass_fields__}


def test_json_says_what_the_text_said() -> None:
    messages = wrote("fail_json")
    assert json.loads(messages[3]["content"]) == {
        "status": "ok",
        "message": "found contact Ana Ruiz: ana@ex.org",
    }
    assert json.loads(messages[-1]["content"]) == {
        "status": "error",
        "message": ITEM.observations["fail"].removeprefix("Error: "),
    }
    assert messages[:-2] == wrote("pre_json")
    assert json.loads(wrote("fail_json", BARE)[-1]["content"]) == {
        "status": "error",
        "message": "no",
    }


def test_wordings_differ_and_keep_what_was_said() -> None:
    for name, wordings in WORDINGS.items():
        texts = [tail(wording)[-1] for wording in wordings]
        assert len({*texts, tail(name)[-1]}) == 6, name
    detail = ITEM.observations["fail"].removeprefix("Error: ")[1:]
    assert all(detail in tail(name)[-1] for name in WORDINGS["fail"])
    for name in WORDINGS["abstract"]:
        (note,) = tail(name)
        assert "send_message" in note and "format error" in note
        assert ITEM.failed_action not in note


def test_an_item_without_the_means_has_no_row() -> None:
    written = {
        name for name, each in CONDITIONS.items() if each.write(BARE, fakes.Chat()) is not None
    }
    of_failure = {"fail", "fail_instruct", "fail_twice", "fail_thrice", "fail_json"}
    of_nothing = {"pre", "pre_instruct", "pre_json", "abstract_min"}
    wordings = {*WORDINGS["neut"], *WORDINGS["fail"]}
    assert written == of_failure | of_nothing | wordings


@pytest.mark.parametrize("item", [ITEM, PROGRAM], ids=["toolshed", "coderepair"])
def test_no_record_shows_the_right_action(item: Item) -> None:
    assert item.gold_action is not None
    for name in CONDITIONS:
        messages = CONDITIONS[name].write(item, fakes.Chat())
        for message in messages or []:
            assert item.gold_action not in message["content"], name


def test_padding_has_the_errors_length(items: list[Item], chat: Chat) -> None:
    for name in ("neut_pad", "neut_echo"):
        missed = []
        for item in items:
            text = wrote(name, item, chat)[-1]["content"]
            assert set(text.removeprefix("Received.")) <= set(" .") or name == "neut_echo"
            missed.append(
                abs(chat.count_tokens(text) - chat.count_tokens(item.observations["fail"]))
            )
        assert sum(distance <= CLOSE for distance in missed) >= 0.95 * len(missed), name


def test_padding_finds_another_filler_where_one_is_swallowed() -> None:
    class Swallows(fakes.Chat):
        """Any run of dots is one token."""

        def count_tokens(self, text: str) -> int:
            return len([word for word in text.replace(".", "").split() if word]) + ("." in text)

    padded = pad("Received.", 9, Swallows())
    assert Swallows().count_tokens(padded) == 9
    assert pad("longer than it may be", 2, fakes.Chat()) == "longer than it may be"


QWEN_LIKE = (
    "{% for m in messages %}<|im_start|>{{ 'user' if m.role == 'tool' else m.role }}\n"
    "{% if m.role == 'tool' %}<tool_response>\n{{ m.content }}\n</tool_response>"
    "{% else %}{{ m.content }}{% for c in m.tool_calls or [] %}<tool_call>\n"
    '{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}\n'
    "</tool_call>{% endfor %}{% endif %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


@pytest.fixture
def with_tools(bundled_model: Path) -> Chat:
    """A chat whose template has a tool role and a form for calls."""
    tokenizer = AutoTokenizer.from_pretrained(bundled_model)
    tokenizer.chat_template = QWEN_LIKE
    return Chat(tokenizer)


def test_a_template_without_tools_has_no_tool_formats(chat: Chat) -> None:
    for name in ("pre_tool_role", "fail_tool_role", "pre_native", "fail_native"):
        assert CONDITIONS[name].write(ITEM, chat) is None, name


def test_the_tool_role_is_the_templates(with_tools: Chat) -> None:
    messages = wrote("fail_tool_role", ITEM, with_tools)
    assert [m["role"] for m in messages] == ["system", "user", *["assistant", "tool"] * 2]
    assert messages[:-2] == wrote("pre_tool_role", ITEM, with_tools)
    assert f"<tool_response>\n{ITEM.observations['fail']}\n" in with_tools.render(messages)


def test_native_calls_are_written_and_scored_as_the_template_writes_them(with_tools: Chat) -> None:
    messages = wrote("fail_native", ITEM, with_tools)
    call = messages[-2]["content"]
    assert call.startswith('<tool_call>\n{"name": "send_message", "arguments": {')
    body = json.loads(call.split("\n")[1])
    assert body["arguments"] == {"to": "Ana Ruiz", "subject": "Lunch", "body": "At noon?"}
    (question,) = ask([ITEM], ["fail_native"], with_tools)
    assert question.request is not None
    assert with_tools.tokenizer.decode(question.request.continuation_ids) == call
    # As if the template had been given the call itself.
    function: Mapping[str, Any] = {"name": "send_message", "arguments": body["arguments"]}
    given = with_tools._apply(
        [
            *wrote("pre_native", ITEM, with_tools),
            {"role": "assistant", "content": "", "tool_calls": [{"function": function}]},
            {"role": "tool", "content": ITEM.observations["fail"]},
        ]
    )
    assert given == with_tools.render(messages)
    assert CONDITIONS["fail_native"].write(PROGRAM, with_tools) is None


def test_a_changed_system_prompt_is_encoded_once(items: list[Item], chat: Chat) -> None:
    """Items share it: the instruction costs its own tokens once, then what follows it."""

    def cost(number: int) -> int:
        questions = ask(items[:number], ["pre_instruct"], chat)
        return len(build_trie([q.request for q in questions if q.request]).tokens)

    system = chat.count_tokens(wrote("pre_instruct", items[0])[0]["content"])
    assert cost(1) > system
    assert cost(5) < cost(1) + 4 * system / 2


def test_text_that_depends_on_the_model_is_stored(items: list[Item], chat: Chat) -> None:
    padded, plain = ask(items[:1], ["neut_pad", "neut"], chat)
    assert padded.written == wrote("neut_pad", items[0], chat)[-1]["content"]
    assert plain.written is None


def test_overlap_is_the_share_of_the_actions_words(chat: Chat) -> None:
    assert overlap('send(to="Ana Ruiz")', "Error: no such contact: ana.") == 0.25
    assert overlap("...", "...") is None
    question = next(q for q in ask([ITEM], ["fail"], chat) if q.candidate == "failed")
    assert question.overlap == overlap(ITEM.failed_action, ITEM.observations["fail"])


def test_unrelated_calls_share_nothing_with_the_item(items: list[Item]) -> None:
    for item in items:
        assert item.unrelated is not None
        assert overlap(item.failed_action, item.unrelated.action) in (0, None) or (
            _values(item.failed_action).isdisjoint(_values(item.unrelated.action))
        )


def _values(call: str) -> set[str]:
    from backfire.environments.toolshed.calls import parse

    return set(map(str, parse(call).named.values()))


def test_a_turn_of_the_history_is_never_reworded(items: list[Item]) -> None:
    for item in items[:8]:
        for name in set(CONDITIONS) - {"pre_json", "fail_json", "fail_early"}:
            messages = CONDITIONS[name].write(item, fakes.Chat())
            if messages is not None:
                texts = [m["content"] for m in messages[2 : 2 + 2 * len(item.history)]]
                assert texts == [text for turn in item.history for text in Turn(*turn)], name
