"""Chat templates with the traits of each family, under the declared policy."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path

import pytest
from tokenizers import Regex, pre_tokenizers
from transformers import AutoTokenizer
from transformers.models.qwen2.tokenization_qwen2 import PRETOKENIZE_REGEX

from backfire.chat import PINNED_DATE, Chat
from backfire.conditions import CONDITIONS, Message
from backfire.environments import KINDS
from backfire.errors import UserError
from backfire.items import Item, draw
from backfire.scores import ask
from backfire.scoring import Refusal

CHATML = """\
{%- for message in messages %}
{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{% endif %}"""

TEMPLATES = {
    # A BOS of its own, today's date unless told otherwise, messages trimmed.
    "llama": """\
{{- bos_token }}
{%- if not date_string is defined %}
{%- if strftime_now is defined %}{%- set date_string = strftime_now("%d %b %Y") %}
{%- else %}{%- set date_string = "26 Jul 2024" %}{%- endif %}
{%- endif %}
{%- set system_message = "" %}
{%- if messages[0]['role'] == 'system' %}
{%- set system_message = messages[0]['content'] | trim %}{%- set messages = messages[1:] %}
{%- endif %}
{{- "<|im_start|>system\\n\\nCutting Knowledge Date: December 2023\\n" }}
{{- "Today Date: " + date_string + "\\n\\n" + system_message + "<|im_end|>" }}
{%- for message in messages %}
{{- '<|im_start|>' + message['role'] + '\\n\\n' + message['content'] | trim + '<|im_end|>' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n\\n' }}{% endif %}""",
    # A default system prompt where none is given.
    "qwen2": """\
{%- if messages[0].role != 'system' %}
{{- '<|im_start|>system\\nYou are a helpful assistant.<|im_end|>\\n' }}
{%- endif %}
"""
    + CHATML,
    # Thinking on unless told otherwise; thoughts of earlier turns are dropped.
    "qwen3": """\
{%- for message in messages %}
{%- set content = message.content %}
{%- if message.role == 'assistant' and '</think>' in content %}
{%- set content = content.split('</think>')[-1].lstrip('\\n') %}
{%- endif %}
{{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}
{%- if enable_thinking is defined and enable_thinking is false %}
{{- '<think>\\n\\n</think>\\n\\n' }}{%- endif %}{%- endif %}""",
    # The assistant is called model, there is no system role, and roles must alternate.
    "gemma": """\
{{ bos_token }}
{%- if messages[0]['role'] == 'system' %}
{{ raise_exception('System role not supported') }}
{%- endif %}
{%- for message in messages %}
{%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}
{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}
{%- endif %}
{%- set role = 'model' if message['role'] == 'assistant' else message['role'] %}
{{- '<|im_start|>' + role + '\\n' + message['content'] | trim + '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>model\\n' }}{% endif %}""",
    # As Gemma, but the system prompt goes into the first turn by the template's own doing.
    "gemma3": """\
{{ bos_token }}
{%- set prefix = '' %}
{%- if messages[0]['role'] == 'system' %}
{%- set prefix = messages[0]['content'] + '\\n\\n' %}{%- set messages = messages[1:] %}
{%- endif %}
{%- for message in messages %}
{%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}
{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}
{%- endif %}
{%- set role = 'model' if message['role'] == 'assistant' else message['role'] %}
{{- '<|im_start|>' + role + '\\n' + (prefix if loop.first else '') }}
{{- message['content'] | trim + '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>model\\n' }}{% endif %}""",
    # Today's date and thinking at once.
    "smollm3": """\
{%- set thinking = enable_thinking if enable_thinking is defined else true %}
{{- '<|im_start|>system\\nToday Date: ' + strftime_now('%d %B %Y') + '\\nReasoning Mode: ' }}
{{- ('/think' if thinking else '/no_think') + '\\n\\n' }}
{%- if messages[0].role == 'system' %}{{- messages[0].content }}{% endif %}{{- '<|im_end|>\\n' }}
{%- for message in messages %}{%- if message.role != 'system' %}
{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
{%- endif %}{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}
{%- if not thinking %}{{- '<think>\\n\\n</think>\\n' }}{% endif %}{% endif %}""",
}

#             system    same role  thinking  date    bos
POLICIES = {
    "llama": ("native", "native", "absent", "2026-01-01", "template"),
    "qwen2": ("native", "native", "absent", "absent", "none"),
    "qwen3": ("native", "native", "off", "absent", "none"),
    "gemma": ("folded", "joined", "absent", "absent", "template"),
    "gemma3": ("native", "joined", "absent", "absent", "template"),
    "smollm3": ("native", "native", "off", "2026-01-01", "none"),
    "plain": ("native", "native", "absent", "absent", "added"),
}

SYSTEM: Message = {"role": "system", "content": "Reply with one call."}
GOAL: Message = {"role": "user", "content": "Book it."}


@pytest.fixture(scope="module")
def items() -> list[Item]:
    return draw(KINDS["toolshed"].build_pool({}, 1).items, 2, 1, 1)


def chat(family: str, folder: Path, **options: bool) -> Chat:
    """The bundled vocabulary under the template, with the family's way to split text and BOS."""
    begins = POLICIES[family][4] != "none"
    tokenizer = AutoTokenizer.from_pretrained(
        folder, local_files_only=True, bos_token="<|endoftext|>", add_bos_token=begins
    )
    if not family.startswith("gemma"):
        tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [
                pre_tokenizers.Split(Regex(PRETOKENIZE_REGEX), behavior="isolated"),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
            ]
        )
    tokenizer.chat_template = TEMPLATES.get(family)
    return Chat(tokenizer, options, "plain" if family == "plain" else "own")


@pytest.fixture(params=POLICIES)
def family(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


def test_the_policy_is_found_and_declared(family: str, bundled_model: Path) -> None:
    said = chat(family, bundled_model).describe()
    found = tuple(said[key] for key in ("system", "same_role", "thinking", "date", "bos"))
    assert found == POLICIES[family]
    assert said["template"] == ("plain" if family == "plain" else "own")
    json.dumps(said)


def test_every_record_is_in_the_prompt_byte_for_byte(
    family: str, bundled_model: Path, items: list[Item]
) -> None:
    used = chat(family, bundled_model)
    bos = used.tokenizer.bos_token_id
    for name in ("pre", "fail", "abstract", "fail_twice", "fail_instruct"):
        for item in items:
            messages = CONDITIONS[name].write(item, used)
            assert messages is not None
            prompt = used.render(messages)
            assert used.altered(messages, prompt) is None
            repeats = sum(item.failed_action in message["content"] for message in messages)
            assert prompt.count(item.failed_action) == repeats
            assert item.system in prompt
        for question in ask(items, [name], used):
            assert not isinstance(question.encoded, Refusal), question.encoded
            ids = question.encoded.context_ids
            assert ids.count(bos) == (POLICIES[family][4] != "none")
            assert ids[0] == bos or bos not in ids
            text = used.tokenizer.decode(question.encoded.continuation_ids)
            assert text in item_texts(items, question.item_id)


def item_texts(items: list[Item], item_id: str) -> list[str]:
    return [text for item in items if item.item_id == item_id for text in item.candidates.values()]


@pytest.mark.parametrize("name", ["llama", "smollm3"])
def test_the_date_does_not_change_overnight(name: str, bundled_model: Path) -> None:
    prompt = chat(name, bundled_model).render([SYSTEM, GOAL])
    assert PINNED_DATE.strftime("%Y") in prompt
    assert datetime.now().strftime("%d %b") not in prompt
    tokenizer = AutoTokenizer.from_pretrained(bundled_model, local_files_only=True)
    tokenizer.chat_template = "{% set format = '%d' %}{{ strftime_now(format) }}"
    with pytest.raises(UserError, match="cannot be pinned"):
        Chat(tokenizer)


@pytest.mark.parametrize("name", ["qwen3", "smollm3"])
def test_thinking_is_off_unless_asked_for(name: str, bundled_model: Path) -> None:
    silent = chat(name, bundled_model)
    assert silent.render([SYSTEM, GOAL]).rstrip("\n").endswith("<think>\n\n</think>")
    thinks = chat(name, bundled_model, enable_thinking=True)
    assert thinks.render([SYSTEM, GOAL]).endswith("assistant\n")
    assert (silent.policy.thinking, thinks.policy.thinking) == ("off", "on")
    assert thinks.describe()["template_options"] == {"enable_thinking": True}


def test_a_system_prompt_without_a_role_opens_the_first_turn(bundled_model: Path) -> None:
    used = chat("gemma", bundled_model)
    prompt = used.render([SYSTEM, GOAL, {"role": "user", "content": "Now."}])
    assert prompt.endswith(
        "<|im_start|>user\nReply with one call.\n\nBook it.\n\nNow.<|im_end|>\n<|im_start|>model\n"
    )


def test_a_message_that_a_template_alters_is_refused(bundled_model: Path) -> None:
    used = chat("llama", bundled_model)
    messages: list[Message] = [SYSTEM, GOAL, {"role": "user", "content": " padded "}]
    reason = used.altered(messages, used.render(messages))
    assert reason == "the chat template alters the text of a user message"


def test_a_base_model_is_scored_only_when_a_template_is_declared(
    bundled_model: Path, tmp_path: Path
) -> None:
    tokenizer = AutoTokenizer.from_pretrained(bundled_model, local_files_only=True)
    tokenizer.chat_template = None
    with pytest.raises(UserError, match="no chat template") as caught:
        Chat(tokenizer)
    assert "`chat_template: plain`" in str(caught.value)
    prompt = Chat(tokenizer, template="plain").render([SYSTEM, GOAL])
    assert prompt == "System:\nReply with one call.\n\nUser:\nBook it.\n\nAssistant:\n"
    assert not Chat(tokenizer, template="plain").has_tool_role
    file = tmp_path / "mine.jinja"
    file.write_text(CHATML, encoding="utf-8")
    mine = Chat(tokenizer, template=str(file))
    assert mine.describe()["template"] == str(file)
    assert mine.render([GOAL]) == "<|im_start|>user\nBook it.<|im_end|>\n<|im_start|>assistant\n"
    file.write_text("{% for message in %}", encoding="utf-8")
    with pytest.raises(UserError, match=r"mine.jinja: the chat template is not right: Expected"):
        Chat(tokenizer, template=str(file))
