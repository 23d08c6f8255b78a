"""A mistake in the configuration is one line that says what would be right."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from backfire import rollout_config
from backfire.config import cells, n_shards, one_of, probes_of
from backfire.config_file import validate
from backfire.errors import UserError


@pytest.fixture
def default(root: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((root / "config.yaml").read_text(encoding="utf-8"))
    return loaded


def test_the_default_config_is_valid(default: dict[str, Any]) -> None:
    validate(default, "config.yaml")


def test_rollouts_lie_over_the_default_config(default: dict[str, Any], root: Path) -> None:
    text = (root / "config.rollouts.yaml").read_text(encoding="utf-8")
    config = {**default, **yaml.safe_load(text)}
    validate(config, "config.rollouts.yaml")
    assert rollout_config.cells(config) == [("smollm2-135m", "toolshed")]
    assert len(rollout_config.files(config, "rollouts", "smollm2-135m", "toolshed")) == 6 * 2
    assert len(rollout_config.files(config, "branches", "smollm2-135m", "toolshed")) == 6 * 5


def variants(config: dict[str, Any]) -> None:
    config["probes"]["more"] = {"conditions": ["pre"], "items": {"toolshed": 5}}


def outsider(config: dict[str, Any]) -> None:
    config["models"]["new"] = {"source": "bundled:smollm2-135m"}
    config["probes"]["core"]["models"] = ["smollm2-135m"]
    config["probes"]["more"] = {"conditions": ["fail_twice"], "items": {"toolshed": 5}}


MISTAKES: list[tuple[Callable[[dict[str, Any]], Any], str]] = [
    (lambda c: c.update(sede=1), "top level: unknown key 'sede'; did you mean 'seed'?"),
    (lambda c: c.pop("seed"), "top level: key 'seed' is missing"),
    (lambda c: c.update(seed="x"), "seed: 'x' is not of type 'integer'"),
    (
        lambda c: c["models"]["smollm2-135m"].update(sorce="x"),
        "models.smollm2-135m: unknown key 'sorce'; did you mean 'source'?",
    ),
    (
        lambda c: c["models"].update(new={"source": "nowhere:x"}),
        "models.new.source: found 'nowhere:x'; right is Where the weights come from",
    ),
    (
        lambda c: c["models"].update(new={"source": "bundled:smollm2-153m"}),
        "models.new.source: unknown bundle 'smollm2-153m'; did you mean 'smollm2-135m'?",
    ),
    (
        lambda c: c["models"].update(new={"source": "path:no/such"}),
        "models.new.source: no such folder 'no/such'; paths start from",
    ),
    (
        lambda c: c["models"].update(new={"source": "path:no/such.gguf"}),
        "models.new.source: no such file 'no/such.gguf'; paths start from",
    ),
    (
        lambda c: c["models"].update(new={"source": "path:tests"}),
        "models.new.source: tests: config.json is missing; `path:` names a transformers folder",
    ),
    (
        lambda c: c["models"]["smollm2-135m"].update(chat_template="plane"),
        "models.smollm2-135m.chat_template: no such file 'plane'; plain or the path of a Jinja",
    ),
    (
        lambda c: c["models"]["smollm2-135m"].update(dtype={"gpu": "bfloat16"}),
        "models.smollm2-135m.dtype: found {'gpu': 'bfloat16'}; right is The number format of the",
    ),
    (
        lambda c: c["models"].update({"a/b": {"source": "path:."}}),
        "models: name 'a/b'; letters, digits, '.', '_', '+' and '-' are allowed",
    ),
    (
        lambda c: c["environments"]["toolshed"].update(kind="toolsheds"),
        "environments.toolshed.kind: unknown kind 'toolsheds'; did you mean 'toolshed'?",
    ),
    (
        lambda c: c["environments"]["toolshed"].update(pertask=3),
        "environments.toolshed: unknown key 'pertask'; did you mean 'per_task'?",
    ),
    (
        lambda c: c["environments"].update(x={"kind": "coderepair", "problems": "mbbp"}),
        "environments.x.problems: unknown problems 'mbbp'; did you mean 'mbpp'?",
    ),
    (
        lambda c: c["environments"].update(mine={"kind": "items"}),
        "environments.mine: key 'path' is missing; kind items needs it",
    ),
    (
        lambda c: c["environments"].update(mine={"kind": "items", "path": 7}),
        "environments.mine.path: 7 is not of type 'string'",
    ),
    (
        lambda c: c["environments"].update(mine={"kind": "items", "path": "no.jsonl"}),
        "environments.mine.path: no such file 'no.jsonl'; paths start from",
    ),
    (
        lambda c: c["probes"]["core"]["conditions"].append("abstrakt"),
        "probes.core.conditions: unknown condition 'abstrakt'; did you mean 'abstract'?",
    ),
    (
        lambda c: c["probes"]["core"]["conditions"].remove("fail"),
        "probes.core.conditions: 'fail' is missing; every measure needs it",
    ),
    (
        lambda c: c["probes"]["core"]["items"].update(toolhsed=5),
        "probes.core.items: unknown environment 'toolhsed'; did you mean 'toolshed'?",
    ),
    (variants, "probes.more.conditions: 'pre' is scored by the core probe already"),
    (
        lambda c: c["probes"].update(more={"conditions": ["x"], "items": {"toolshed": 999}}),
        "probes.more.items.toolshed: 999 items, and the core probe",
    ),
    (outsider, "probes.more.models: 'new' is not among the core probe's models"),
    (lambda c: c.update(shard_size=0), "shard_size: 0 is less than the minimum of 1"),
]


@pytest.mark.parametrize(("mistake", "expected"), MISTAKES, ids=[line for _, line in MISTAKES])
def test_a_mistake_is_named(
    default: dict[str, Any], mistake: Callable[[dict[str, Any]], Any], expected: str
) -> None:
    config = copy.deepcopy(default)
    mistake(config)
    with pytest.raises(UserError) as caught:
        validate(config, "config.yaml")
    lines = str(caught.value).splitlines()
    assert any(line.startswith(f"config.yaml: {expected}") for line in lines), lines


def test_all_mistakes_are_named_at_once(default: dict[str, Any]) -> None:
    default.update(sede=1, shard_size=0)
    default["statistics"]["confidence"] = 2
    with pytest.raises(UserError) as caught:
        validate(default, "config.yaml")
    assert len(str(caught.value).splitlines()) == 3


def test_cells_and_shards_follow_from_the_config(default: dict[str, Any]) -> None:
    default["models"]["b+1.5"] = {"source": "bundled:smollm2-135m"}
    default["environments"] = {
        "toolshed": {"kind": "toolshed"},
        "mine": {"kind": "items", "path": "x.jsonl"},
    }
    default["probes"] = {"core": {"conditions": ["pre"], "items": {"toolshed": 9, "mine": 26}}}
    default["probes"]["more"] = {
        "conditions": ["neut_pad"],
        "items": {"mine": 10},
        "models": ["b+1.5"],
    }
    assert cells(default) == [
        ("smollm2-135m", "toolshed"),
        ("smollm2-135m", "mine"),
        ("b+1.5", "toolshed"),
        ("b+1.5", "mine"),
    ]
    assert n_shards(default, "core", "mine") == 2
    assert probes_of(default, "b+1.5", "mine") == ["core", "more"]
    assert probes_of(default, "smollm2-135m", "mine") == ["core"]


def test_names_match_as_they_are() -> None:
    import re

    pattern = re.compile(one_of(["a.b", "c+d"]))
    assert pattern.fullmatch("a.b")
    assert pattern.fullmatch("c+d")
    assert not pattern.fullmatch("axb")
