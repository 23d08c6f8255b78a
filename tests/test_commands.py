"""What a study will take, and what of it is there."""

from __future__ import annotations

import shutil
from copy import deepcopy
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml
from snakemake.utils import update_config

from backfire import commands, config_file, memory, planning
from backfire import config as study
from backfire.planning import Machine, Stage
from backfire.storage import write_table

CONFIG: dict[str, Any] = {
    "seed": 1,
    "models": {"m": {"source": "bundled:smollm2-135m"}},
    "environments": {"toolshed": {"kind": "toolshed"}},
    "probes": {"core": {"conditions": ["pre", "fail"], "items": {"toolshed": 10}}},
    "statistics": {"resamples": 1000, "confidence": 0.95},
    "checks": {"pairs": 2},
    "shard_size": 4,
}

LARGE = Machine(cores=2, memory=64_000, disk=1e6)


@pytest.fixture(autouse=True)
def _apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    memory.counted.cache_clear()


@pytest.mark.parametrize(
    ("source", "millions"),
    [
        ("bundled:smollm2-135m", 135),
        ("hub:HuggingFaceTB/SmolLM2-360M-Instruct", 360),
        ("hub:Qwen/Qwen2.5-0.5B-Instruct", 500),
        ("hub:Qwen/Qwen3-0.6B", 600),
        ("hub:meta-llama/Llama-3.2-1B-Instruct", 1000),
        ("hub:google/gemma-3-270m-it", 270),
        ("path:models/mine", None),
    ],
)
def test_a_models_size_is_read_off_its_name(source: str, millions: int | None) -> None:
    assert memory.parameters_of({"source": source}) == (millions and millions * 1e6)


def test_a_models_size_is_counted_where_it_lies_here(tiny_model: Path) -> None:
    counted = memory.parameters_of({"source": f"path:{tiny_model}"})
    assert counted is not None
    assert 1_500_000 < counted < 2_000_000  # 49152 x 32 embeddings and two small layers


def stages(config: dict[str, Any]) -> dict[str, Stage]:
    return {stage.name: stage for stage in planning.plan(config)}


def test_time_grows_with_items_conditions_and_parameters() -> None:
    def seconds(config: dict[str, Any]) -> float:
        found = stages(config)["core on toolshed"].seconds
        assert found is not None
        return found

    base = seconds(CONFIG)
    more = deepcopy(CONFIG)
    more["probes"]["core"]["items"]["toolshed"] = more["shard_size"] = 100
    assert base < seconds(more)
    more["probes"]["core"]["conditions"].append("neut")
    longer = seconds(more)
    more["models"]["m"]["source"] = "hub:some/thing-1.35B"
    assert seconds(more) > 5 * longer


def test_a_default_study_takes_minutes_as_measured(root: Path) -> None:
    """4.4 CPU minutes were measured for ToolShed's 100 items, and 1.7 GB."""
    config = yaml.safe_load((root / "config.yaml").read_text(encoding="utf-8"))
    scoring = stages(config)["core on toolshed"]
    assert scoring.seconds == pytest.approx(265, rel=0.3)
    assert scoring.memory == pytest.approx(1742, rel=0.1)


def test_what_does_not_fit_is_said() -> None:
    small = Machine(cores=2, memory=1000, disk=1)
    lines = list(commands.plan(CONFIG, small))
    assert any("Does not fit: m needs 1.8 GB of memory" in line for line in lines)
    assert any("are written, and 1 MB are free" in line for line in lines)
    assert not any("fit" in line for line in commands.plan(CONFIG, LARGE))
    tight = Machine(cores=16, memory=8000, disk=1e6)
    assert any("at most 4 of its jobs at a time" in line for line in commands.plan(CONFIG, tight))


def test_a_size_that_nobody_knows_is_no_number() -> None:
    config = deepcopy(CONFIG)
    config["models"]["m"]["source"] = "path:models/mine"
    lines = list(commands.plan(config, LARGE))
    assert any(line.startswith("Not known: the size of m") for line in lines)
    [scoring] = [line for line in lines if "core on toolshed" in line]
    assert scoring.split()[-4:-2] == ["?", "?"]


def write_shards(seconds: float, reused: int, shards: int = 3) -> None:
    items = pa.table({"item_id": ["a", "a", "b", "b"]})
    for shard in range(shards):
        made = {"seconds": seconds, "reused": reused, "computed": 4 - reused}
        for path in study.shard_files(CONFIG, "core", "m", "toolshed", shard):
            write_table(path, items, made)


def test_former_runs_say_how_fast_this_machine_is() -> None:
    assert planning.measured_rate(CONFIG) is None
    write_shards(seconds=10, reused=0)
    tokens = 2 * 2 * planning.TOKENS["toolshed"]
    assert planning.measured_rate(CONFIG) == pytest.approx(tokens * 135e6 / 10)
    write_shards(seconds=1, reused=3)  # not a measurement of the scorer
    assert planning.measured_rate(CONFIG) is None


def test_status_names_the_shards_that_are_missing() -> None:
    write_shards(seconds=1, reused=0, shards=1)
    lines = list(commands.status(CONFIG))
    assert lines[0].split("  ")[-2:] == ["1 of 3 shards", "missing: 1-2"]
    Path(study.score_file("core", "m", "toolshed", "fail", 0)).unlink()
    assert "missing: 0-2" in next(iter(commands.status(CONFIG)))


def test_status_of_a_finished_study() -> None:
    write_shards(seconds=1, reused=0)
    for paths in commands._made_once(CONFIG).values():
        for path in paths:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            Path(path).touch()
    assert list(commands.status(CONFIG))[-2] == "All files are there."


def test_a_finished_study_has_nothing_left_to_do(tiny_model: Path) -> None:
    left = "Left to do: 0 s of one core"
    config = {**CONFIG, "models": {"m": {"source": f"path:{tiny_model}"}}}
    write_shards(seconds=1, reused=0)
    assert not any(line.startswith(left) for line in commands.plan(config, LARGE))
    for paths in commands._made_once(config).values():
        for path in paths:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            Path(path).touch()
    assert any(line.startswith(left) for line in commands.plan(config, LARGE))


def test_a_part_of_a_config_lies_over_the_default_one(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("config.yaml", "config.rollouts.yaml", "config.paper.yaml"):
        shutil.copy(root / name, name)
    assert commands.main(["plan", "config.rollouts.yaml"]) == 0
    shown = capsys.readouterr().out
    assert "core on coderepair" in shown
    [line] = [line for line in shown.splitlines() if "rollouts on toolshed" in line]
    assert line.split()[4:6] == ["12", "0"]
    Path("part.yaml").write_text("seed: x\n", encoding="utf-8")
    assert commands.main(["status", "part.yaml"]) == 1
    assert capsys.readouterr().err.startswith("part.yaml over config.yaml: seed: ")


@pytest.mark.parametrize(
    "top", [{}, {"seed": 2}, {"probes": {"core": {"items": {"x": 1}}}, "y": [3]}]
)
def test_laid_over_as_snakemake_does_it(top: dict[str, Any]) -> None:
    expected = deepcopy(CONFIG)
    update_config(expected, top)
    assert config_file._laid_over(CONFIG, top) == expected


def test_ranges() -> None:
    assert commands._ranges([0, 1, 2, 5, 7, 8]) == "0-2, 5, 7-8"


def test_a_mistake_in_the_config_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    Path("config.yaml").write_text(yaml.safe_dump({**CONFIG, "sede": 1}), encoding="utf-8")
    assert commands.main(["plan"]) == 1
    assert "unknown key 'sede'; did you mean 'seed'?" in capsys.readouterr().err
    assert commands.main(["status", "gone.yaml"]) == 1
    assert "gone.yaml" in capsys.readouterr().err
