"""The paper's configuration: what it plans, and its whole DAG on tiny draws."""

from __future__ import annotations

import csv
import os
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml
from studies import Study

from backfire.config import cells
from backfire.config_file import validate

NAME = "config.paper.yaml"
TARGETS = ("--", "all", "rollouts")


@pytest.fixture
def paper(root: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((root / NAME).read_text(encoding="utf-8"))
    return loaded


def test_it_covers_every_published_cell(paper: dict[str, Any], root: Path) -> None:
    validate(paper, NAME)
    named = {entry["published_as"]: model for model, entry in paper["models"].items()}
    published = pd.read_csv(root / "resources/published/probe.csv")
    pairs = set(zip(published["model"].map(named), published["environment"], strict=True))
    assert set(cells(paper)) == pairs
    variants = pd.read_csv(root / "resources/published/variants.csv")
    probe = paper["probes"]["variants"]
    assert set(variants["condition"]) == set(probe["conditions"])
    assert set(variants["model"].map(named)) == set(probe["models"])
    acted = pd.read_csv(root / "resources/published/rollouts.csv")
    rollouts = paper["rollouts"]["toolshed"]
    assert set(acted["harness"]) == set(rollouts["harnesses"])
    assert set(acted["model"].map(named)) == set(rollouts["models"])


def test_the_models_in_comments_are_right_too(root: Path) -> None:
    text = (root / NAME).read_text(encoding="utf-8")
    config = yaml.safe_load(re.sub(r"^  # (?=[\w.-]+: {)", "  ", text, flags=re.MULTILINE))
    validate(config, NAME)
    assert len(config["models"]) == 6 + 11


def test_models_stand_in_order_of_size(paper: dict[str, Any]) -> None:
    sizes = [entry["parameters"] for entry in paper["models"].values()]
    assert sizes == sorted(sizes)


@pytest.mark.slow
def test_the_plan_is_of_the_models_that_the_machine_can_hold(
    paper: dict[str, Any], tmp_path: Path
) -> None:
    study = Study(tmp_path / "study", paper)
    output = study.run("--resources", "mem_mb=12000", "--dry-run", *TARGETS)
    [line] = [line for line in output.splitlines() if "left out" in line]
    assert line.startswith("smollm2-1.7b needs about 14,")
    jobs = dict(line.split() for line in output.splitlines() if re.fullmatch(r"\w+ +\d+", line))
    shards = {"score_core": 5 * 4 + 3 * 3, "score_variants": 2 * 4}  # of 25 items
    expected = {"download_model": 5, **shards, "measure": 8, "roll_out": 5, "branch_out": 5}
    assert {rule: int(jobs[rule]) for rule in expected} == expected


@pytest.mark.slow
@pytest.mark.skipif("PAPER" not in os.environ, reason="75 jobs of 3 s: by hand, with PAPER=1")
def test_its_whole_dag_runs_on_tiny_draws(
    paper: dict[str, Any], tmp_path: Path, tiny_model: Path
) -> None:
    for entry in paper["models"].values():
        entry["source"] = f"path:{tiny_model}"
        del entry["parameters"]
    paper["environments"]["coderepair"]["path"] = "resources/problems/builtin.json"
    for probe in paper["probes"].values():
        probe["items"] = dict.fromkeys(probe["items"], 2)
    paper["rollouts"]["toolshed"] |= {"tasks": 2, "steps": 2}
    paper["statistics"]["resamples"] = 100
    paper["checks"]["pairs"] = 2
    study = Study(tmp_path / "study", paper)
    process = study.start(*TARGETS)
    output, _ = process.communicate()  # as long as it takes
    assert process.returncode == 0, output
    assert study.planned(*TARGETS) == {}
    results = study.folder / "results"
    made = [path for path in results.rglob("*") if path.is_file() and "logs" not in path.parts]
    assert [path for path in made if not path.stat().st_size] == []
    kinds = Counter(path.relative_to(results).parts[0] for path in made)
    assert {"tables", "figures", "models", "outcomes", "checks", "report.html"} <= set(kinds)
    tables = (results / "tables").glob("*.csv")
    empty = {path.stem for path in tables if not [*csv.DictReader(path.open(encoding="utf-8"))]}
    # Programs have neither template nor step; the stand-ins are of one size and write prose.
    assert empty <= {"G_template_coderepair", "G_step_coderepair", "scaling", "rollout_families"}
