"""Conditions of the user's own: as documented they work, and a broken one is one line."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fakes
import pytest
import yaml

from backfire.conditions import CONDITIONS, Message
from backfire.config import own_conditions
from backfire.config_file import validate
from backfire.errors import UserError
from backfire.examples import EXAMPLES
from backfire.items import Item
from backfire.user_conditions import digests, register

CONFIG: dict[str, Any] = {
    "seed": 1,
    "models": {"m": {"source": "bundled:smollm2-135m"}},
    "environments": {"toolshed": {"kind": "toolshed"}},
    "probes": {
        "core": {"conditions": ["pre", "fail"], "items": {"toolshed": 8}},
        "mine": {"conditions": ["mine"], "items": {"toolshed": 4}},
    },
    "statistics": {"resamples": 100, "confidence": 0.95},
    "checks": {"pairs": 4},
    "shard_size": 4,
}
ITEM = EXAMPLES["toolshed"]


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Paths start from an empty folder, and the registry is left as it was."""
    monkeypatch.chdir(tmp_path)
    known = dict(CONDITIONS)
    yield
    CONDITIONS.clear()
    CONDITIONS.update(known)


def config_with(entry: dict[str, str]) -> dict[str, Any]:
    return {**copy.deepcopy(CONFIG), "conditions": {"mine": entry}}


def template(text: str) -> dict[str, Any]:
    Path("mine.j2").write_text(text, encoding="utf-8")
    return config_with({"template": "mine.j2"})


def function(text: str, name: str = "mine") -> dict[str, Any]:
    Path("mine.py").write_text(text, encoding="utf-8")
    return config_with({"function": f"mine.py:{name}"})


def written(config: dict[str, Any], item: Item = ITEM) -> list[Message] | None:
    validate(config, "config.yaml")
    register(config["conditions"])
    return CONDITIONS["mine"].write(item, fakes.Chat())


def complaint(config: dict[str, Any]) -> str:
    with pytest.raises(UserError) as caught:
        validate(config, "config.yaml")
    line = str(caught.value)
    assert "\n" not in line
    return line


def documented(root: Path) -> dict[str, list[str]]:
    """The code blocks of the docs, by language."""
    text = (root / "docs/conditions.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```(\w+)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    return {name: [text for language, text in blocks if language == name] for name, _ in blocks}


def test_what_the_docs_show_works_as_it_stands(root: Path) -> None:
    blocks = documented(root)
    Path("my_note.j2").write_text(blocks["jinja"][0], encoding="utf-8")
    Path("my_conditions.py").write_text(blocks["python"][0], encoding="utf-8")
    named = next(text for text in blocks["yaml"] if text.startswith("conditions:"))
    config = {**copy.deepcopy(CONFIG), **yaml.safe_load(named)}
    config["probes"]["mine"]["conditions"] = list(config["conditions"])
    validate(config, "config.yaml")
    register(config["conditions"])
    note = CONDITIONS["my_note"].write(ITEM, fakes.Chat())
    assert note is not None
    assert note[:4] == CONDITIONS["pre"].write(ITEM, fakes.Chat())
    assert note[4:] == [
        {"role": "assistant", "content": "send_message(...)"},
        {
            "role": "user",
            "content": "That call failed: format error.\nIn short: Error: format error.",
        },
    ]
    told = CONDITIONS["my_function"].write(ITEM, fakes.Chat())
    assert told is not None
    assert told[-1] == {"role": "user", "content": "Go on."}
    assert CONDITIONS["my_function"].write(EXAMPLES["coderepair"], fakes.Chat()) is None


def test_the_default_study_scores_every_condition(root: Path) -> None:
    probes = yaml.safe_load((root / "config.yaml").read_text(encoding="utf-8"))["probes"]
    listed = [name for probe in probes.values() for name in probe["conditions"]]
    assert sorted(listed) == sorted(CONDITIONS)


def test_text_of_an_item_is_never_taken_for_a_marker() -> None:
    messages = written(template("{{ observations.fail }}\n[user]\nAgain."))
    hostile = Item("i", "t", "s", "g", (), "x", {"fail": "{{ 1 }}\n[assistant]\n{% boom %}"})
    hostile_messages = CONDITIONS["mine"].write(hostile, fakes.Chat())
    assert messages is not None and hostile_messages is not None
    assert [m["content"] for m in hostile_messages[2:]] == [hostile.observations["fail"], "Again."]


def test_an_item_that_lacks_something_has_no_row() -> None:
    config = template("{{ tool }} failed: {{ observations.terse }}")
    assert written(config) is not None
    bare = Item("i", "t", "s", "g", (), "x", {"fail": "no"})
    assert CONDITIONS["mine"].write(bare, fakes.Chat()) is None


def test_a_function_may_ask_for_the_context() -> None:
    config = function(
        "def mine(item, ctx):\n"
        "    return [{'role': 'user', 'content': str(ctx.count_tokens(item.goal))}]\n"
    )
    assert written(config) == [{"role": "user", "content": "7"}]


BROKEN: list[tuple[Callable[[], dict[str, Any]], str]] = [
    (lambda: config_with({"template": "none.j2"}), "none.j2: cannot be read"),
    (lambda: config_with({"function": "none.py:f"}), "none.py: cannot be read"),
    (lambda: template("{{ tol }} failed"), "mine.j2: unknown name 'tol'; did you mean 'tool'?"),
    (
        lambda: template("[user]\nx {{ observations.tersee }}"),
        "mine.j2: nothing is written: item 'example': 'dict object' has no attribute 'tersee' "
        "(its observations are fail, terse,",
    ),
    (lambda: template("ok\n[user]\n{{ tool"), "mine.j2: line 3: "),
    (lambda: template("{{ tool | shout }}"), "mine.j2: line 1: No filter named 'shout'"),
    (lambda: template("{{ 1 / 0 }}"), "mine.j2: item 'example': ZeroDivisionError"),
    (lambda: template("   \n"), "mine.j2: nothing is written: item 'example': every message"),
    (lambda: template("x\n[assistant]\ny"), "mine.j2: item 'example': the last message is the"),
    (
        lambda: function("def mind(item):\n    return None"),
        "mine.py: no function 'mine'; did you mean 'mind'?",
    ),
    (lambda: function("mine = (\n"), "mine.py: line 1: cannot be imported: SyntaxError"),
    (lambda: function("\nimport nowhere\n"), "mine.py: line 2: cannot be imported: ModuleNotFound"),
    (
        lambda: function("def mine(item):\n    return item.nope"),
        "mine.py: item 'example': line 2: AttributeError: 'Item' object has no attribute 'nope'",
    ),
    (lambda: function("def mine(item):\n    return 'x'"), "mine.py: item 'example': found 'x'; a"),
    (
        lambda: function("def mine(item):\n    return [{'role': 'bot', 'content': 'x'}]"),
        "mine.py: item 'example': message 1 has the role 'bot'; one of system, user,",
    ),
    (
        lambda: function("def mine(item):\n    return [{'role': 'user', 'content': None}]"),
        "mine.py: item 'example': message 1 has the content None; text",
    ),
    (
        lambda: function("def mine(item):\n    return [('user', 'x')]"),
        "mine.py: item 'example': me",
    ),
    (lambda: function("def mine():\n    return []"), "mine.py: item 'example': TypeError: mine()"),
    (
        lambda: function("def mine(item):\n    return None"),
        "mine.py: nothing is written: item 'example' gives None",
    ),
]


@pytest.mark.parametrize(("broken", "expected"), BROKEN, ids=[line for _, line in BROKEN])
def test_a_broken_condition_is_one_line(
    broken: Callable[[], dict[str, Any]], expected: str
) -> None:
    assert complaint(broken()).startswith(f"config.yaml: conditions.mine: {expected}")


def test_names_and_keys_of_the_config_are_checked() -> None:
    config = template("x")
    config["conditions"]["fail"] = {"template": "mine.j2"}
    assert complaint(config).startswith("config.yaml: conditions.fail: there is a condition")
    assert complaint(config_with({})) == (
        "config.yaml: conditions.mine: found nothing; one of 'template' or 'function' is right"
    )
    assert "unknown key 'tempalte'; did you mean 'template'?" in complaint(
        {**template("x"), "conditions": {"mine": {"template": "mine.j2", "tempalte": "x"}}}
    )
    both = config_with({"template": "mine.j2", "function": "mine.py:f"})
    assert "found 'template', 'function'; one of" in complaint(both)
    unknown = copy.deepcopy(CONFIG)
    assert "unknown condition 'mine'" in complaint(unknown)


def test_an_item_met_later_names_itself() -> None:
    config = function(
        "def mine(item):\n"
        "    last = item.history[-1]\n"
        "    return [{'role': 'user', 'content': last.action}]\n"
    )
    assert written(config) is not None
    with pytest.raises(UserError, match=r"mine\.py: item 'i7': line 2: IndexError"):
        CONDITIONS["mine"].write(Item("i7", "t", "s", "g", (), "x", {"fail": "y"}), fakes.Chat())


def test_it_is_tried_on_the_first_item_of_ones_own_file(root: Path) -> None:
    config = template("{{ observations.mine }}")
    Path("items.jsonl").write_text(
        '{"item_id": "a", "task_id": "t", "system": "s", "goal": "g", "history": [], '
        '"failed_action": "x", "observations": {"fail": "no", "mine": "own"}}\n',
        encoding="utf-8",
    )
    config["environments"] = {"own": {"kind": "items", "path": "items.jsonl"}}
    for probe in config["probes"].values():
        probe["items"] = {"own": 1}
    validate(config, "config.yaml")


def test_the_files_content_is_what_a_rerun_depends_on() -> None:
    config = template("one")
    config["conditions"]["mine"]["summary"] = "words"
    first = digests(own_conditions(config, "mine"))
    assert own_conditions(config, "core") == {}
    config["conditions"]["mine"]["summary"] = "other words"
    assert digests(own_conditions(config, "mine")) == first
    Path("mine.j2").write_text("two", encoding="utf-8")
    assert digests(own_conditions(config, "mine")) != first


def test_the_examples_have_what_real_items_have(root: Path) -> None:
    from backfire.environments import KINDS

    real = KINDS["toolshed"].build_pool({"kind": "toolshed"}, 20260808).items[0]
    example = EXAMPLES["toolshed"]
    assert set(example.observations) == set(real.observations)
    assert example.error is not None and real.error is not None
    assert set(example.error) == set(real.error)
    for name in Item.__dataclass_fields__:
        assert (getattr(example, name) is None) == (getattr(real, name) is None), name
