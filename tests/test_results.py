"""A study's results are those of its configuration, whatever else lies in the folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

from backfire import reporting
from backfire.estimates import ALL_MODELS, ESTIMATE_SCHEMA
from backfire.results import Results
from backfire.scores import SCORE_SCHEMA
from backfire.storage import write_json, write_table, write_text

OUTLINE: dict[str, Any] = {
    "models": ["a", "b"],
    "cells": [["a", "e"], ["b", "e"]],
    "probes": {"core": ["pre", "fail"]},
    "shards": {"core": {"e": 1}},
    "statistics": {"seed": 1, "resamples": 100, "confidence": 0.95},
    "equivalence_margin": None,
}


def write_shard(folder: Path, model: str, condition: str, shard: int) -> None:
    row = {
        "item_id": f"item {shard}",
        "condition": condition,
        "candidate": "failed",
        "n_bytes": 1,
        "prompt_sha256": "",
    }
    path = folder / "scores/core" / model / "e" / condition / f"{shard}.parquet"
    write_table(path, pa.Table.from_pylist([row], schema=SCORE_SCHEMA))


def write_estimates(path: Path, model: str, environment: str) -> None:
    row = {"model": model, "environment": environment, "group": "all", "measure": "G"}
    whole = {**row, "mean": 0.0, "n": 1, "n_clusters": 1, "status": "ok"}
    write_table(path, pa.Table.from_pylist([whole], schema=ESTIMATE_SCHEMA))


def test_shards_of_an_earlier_configuration_are_not_read(tmp_path: Path) -> None:
    for model in "ab":
        for condition in ("pre", "fail", "neut"):  # neut was taken out of the config
            for shard in (0, 1):  # and the shards were made larger
                write_shard(tmp_path, model, condition, shard)
    for scores in Results(tmp_path, OUTLINE).scores.values():
        rows = scores[["item_id", "condition"]].itertuples(index=False)
        assert sorted(map(tuple, rows)) == [("item 0", "fail"), ("item 0", "pre")]


def test_estimates_of_an_environment_taken_out_are_not_read(tmp_path: Path) -> None:
    for model in "ab":
        write_estimates(tmp_path / "estimates" / model / "e.parquet", model, "e")
    for environment in ("e", "gone"):
        path = tmp_path / "estimates" / f"{environment}.parquet"
        write_estimates(path, ALL_MODELS, environment)
    found: pd.DataFrame = Results(tmp_path, OUTLINE).estimates
    assert list(found["model"]) == ["a", "b", ALL_MODELS]
    assert set(found["environment"]) == {"e"}


def test_time_spent_on_shards_of_an_earlier_configuration_does_not_count(tmp_path: Path) -> None:
    text = "s\tmax_rss\tcpu_time\n{}\t100\t1\n"
    for path, seconds in [
        ("score_core/a/e/0.tsv", 1),
        ("score_core/a/e/1.tsv", 10),
        ("score_core/gone/e/0.tsv", 100),
        ("score_gone/a/e/0.tsv", 1000),
        ("measure/a/e.tsv", 5),
        ("roll_out/a/e/drop/greedy.tsv", 7),
        ("roll_out/a/e/drop/seed1.tsv", 10),
        ("roll_out/a/e/gone/greedy.tsv", 10),
        ("branch_out/a/e/drop/seed1.tsv", 3),
        ("score_own_failures/a/e.tsv", 2),
        ("score_own_failures/gone/e.tsv", 10),
    ]:
        write_text(tmp_path / path, text.format(seconds))
    entry = {"harnesses": ["verbatim", "drop"], "samples": 0, "branches": {"samples": 1}}
    rollouts = {"models": ["a"], "rollouts": {"e": entry}}
    steps = reporting.steps(tmp_path, OUTLINE, rollouts).set_index("step")
    assert dict(steps["seconds"]) == {
        "branch_out": 3.0,
        "measure": 5.0,
        "roll_out": 7.0,
        "score_core": 1.0,
        "score_own_failures": 2.0,
    }
    assert set(steps["jobs"]) == {1}


def test_a_run_whose_scores_do_not_hold_says_so_at_its_end(tmp_path: Path) -> None:
    for model in "ab":
        write_estimates(tmp_path / "estimates" / model / "e.parquet", model, "e")
        write_json(tmp_path / "models" / model / "model.json", {"weights": "float32 weights"})
        check = {"ok": model == "a", "max_difference": 0.25}
        write_json(tmp_path / "checks" / model / "e.json", check)
    write_estimates(tmp_path / "estimates" / "e.parquet", ALL_MODELS, "e")
    lines = reporting.closing_summary(Results(tmp_path, OUTLINE)).splitlines()
    assert [line for line in lines if line.startswith("WARNING")] == [
        "WARNING: scores of b (float32 weights) on e differ from the plain loop by up to "
        "0.25 nats; do not trust them. See the report."
    ]
