"""What models take, and what becomes of those that are too large."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml

from backfire.config import cells, hub_models, identity, models_of
from backfire.config_file import validate
from backfire.errors import UserError
from backfire.memory import leave_out, needed_mb, parameters_of


@pytest.fixture
def config(root: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((root / "config.paper.yaml").read_text("utf-8"))
    return loaded


def test_parameters_are_counted_where_the_weights_are(bundled_model: Path) -> None:
    there = {"source": f"path:{bundled_model}", "parameters": 7}
    assert parameters_of(there) == 134_515_008
    assert parameters_of({"source": "hub:org/absent-1.5b", "parameters": 7}) == 7
    assert parameters_of({"source": "hub:org/Absent2.5-1.5B-Instruct"}) == 1_500_000_000
    assert parameters_of({"source": "hub:org/absent2"}) is None


def test_memory_follows_parameters_and_dtype() -> None:
    model = {"source": "hub:org/absent", "parameters": 1_000_000_000}
    assert needed_mb(model) == 700 + 2 * 4000
    assert needed_mb({**model, "dtype": "bfloat16"}) == 700 + 2 * 2000
    assert needed_mb({"source": "hub:org/absent"}) == 4000


def test_models_too_large_are_left_out_everywhere(config: dict[str, Any]) -> None:
    needs = {name: needed_mb(entry) for name, entry in config["models"].items()}
    whole = copy.deepcopy(config)
    assert list(leave_out(config, needs, max(needs.values()))) == [] and config == whole
    lines = list(leave_out(config, needs, needs["smollm2-360m"]))
    assert len(lines) == 4
    assert lines[0] == (
        f"qwen2.5-0.5b needs about {needs['qwen2.5-0.5b']:,} MB of memory and there are "
        f"{needs['smollm2-360m']:,}: left out; --resources mem_mb={needs['qwen2.5-0.5b']} runs it "
        "all the same"
    )
    kept = ["smollm2-135m", "smollm2-360m"]
    assert list(config["models"]) == kept
    assert config["environments"]["coderepair"]["models"] == kept
    assert config["probes"]["variants"]["models"] == ["smollm2-135m"]
    assert config["rollouts"] == {}  # qwen2.5-0.5b's alone
    validate(config, "config.yaml")


def test_an_environment_takes_the_models_that_it_names(config: dict[str, Any]) -> None:
    some = ["smollm2-135m", "smollm2-360m", "qwen2.5-0.5b"]
    assert models_of(config, "core", "coderepair") == some
    assert models_of(config, "core", "toolshed") == models_of(config, "core")
    assert [model for model, environment in cells(config) if environment == "coderepair"] == some
    config["environments"]["coderepair"]["models"] = ["smollm2-153m"]
    with pytest.raises(UserError, match=r"environments\.coderepair\.models: unknown model"):
        validate(config, "config.yaml")


def test_hub_models_go_by_their_names_there(config: dict[str, Any]) -> None:
    assert len(hub_models(config)) == len(config["models"]) == 6
    config["models"]["x"] = {"source": "hub:org/name@v1.0", "parameters": 5}
    assert hub_models(config)[-1] == "org/name@v1.0"
    assert identity(config, "x") == {"source": "hub:org/name@v1.0"}


@pytest.mark.parametrize("source", ["hub:name", "hub:org/name@", "hub:org/name/x", "hub: /x"])
def test_a_source_on_the_hub_is_an_organisation_and_a_name(
    config: dict[str, Any], source: str
) -> None:
    config["models"]["x"] = {"source": source}
    with pytest.raises(UserError, match=r"models\.x\.source: found .*; right is Where the weights"):
        validate(config, "config.yaml")
