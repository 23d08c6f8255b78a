"""The workflow as people run it: a real snakemake on a tiny study, in a folder of its own."""

from __future__ import annotations

import csv
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from studies import Study, config_for, jobs_of

pytestmark = pytest.mark.slow


def assert_close(found: Any, expected: Any, place: str = "") -> None:
    """Equal, numbers within the scorer's tolerance: other packs round otherwise.

    A share divides by a G that is next to nothing under a random model, hence the percent.
    """
    if isinstance(expected, dict):
        assert found.keys() == expected.keys(), place
        for key in expected:
            assert_close(found[key], expected[key], f"{place}/{key}")
    elif isinstance(expected, list):
        assert len(found) == len(expected), place
        for number, (one, other) in enumerate(zip(found, expected, strict=True)):
            assert_close(one, other, f"{place}/{number}")
    elif isinstance(expected, float):
        assert found == pytest.approx(expected, rel=1e-2, abs=1e-3, nan_ok=True), place
    else:
        assert found == expected, place


def estimates(study: Study) -> list[str]:
    """The targets that hold the study's numbers: no figure, no page."""
    probes = study.config["probes"]
    return [
        f"results/estimates/{model}/{environment}.parquet"
        for model in study.config["models"]
        for environment in probes["core"]["items"]
    ]


def test_everything_that_is_promised_is_there(finished: Study) -> None:
    results = finished.folder / "results"
    for name in ("report.html", "summary.txt", "models/tiny.v1+x/summary.md"):
        assert (results / name).stat().st_size > 100, name
    for suffix in ("pdf", "png"):
        assert (results / f"figures/decomposition.{suffix}").stat().st_size > 1000


def test_the_tables_follow_from_the_shards(finished: Study) -> None:
    """G, its share of negative items and greedy repetition, recomputed by hand."""
    results = finished.folder / "results"
    logprob: dict[tuple[str, str], float] = {}
    greedy = []
    for path in (results / "scores/core/tiny.v1+x/toolshed").rglob("*.parquet"):
        for row in pq.read_table(path).to_pylist():
            if row["candidate"] == "failed":
                assert row["logprob"] == pytest.approx(sum(row["token_logprobs"]), abs=1e-9)
                logprob[row["item_id"], row["condition"]] = row["logprob"]
                if row["condition"] == "fail":
                    greedy.append(row["greedy_match"])
    items = {item for item, _ in logprob}
    gains = [logprob[item, "pre"] - logprob[item, "fail"] for item in items]
    by_hand = {
        "G": sum(gains) / len(gains),
        "G_negative": sum(gain < 0 for gain in gains) / len(gains),
        "copy": sum(logprob[i, "neut"] - logprob[i, "pre"] for i in items) / len(items),
        "sem": sum(logprob[i, "fail"] - logprob[i, "neut"] for i in items) / len(items),
        "greedy_repeat_fail": sum(greedy) / len(greedy),
    }
    printed = {
        row["measure"]: row
        for path in (results / "tables").glob("table[345]_toolshed.csv")
        for row in csv.DictReader(path.open(encoding="utf-8"))
    }
    for measure, value in by_hand.items():
        assert float(printed[measure]["mean"]) == pytest.approx(value, abs=1e-9), measure
        assert int(printed[measure]["n"]) == len(items) == 8
    page = (results / "report.html").read_text(encoding="utf-8")
    assert f"{by_hand['copy']:.2f}".replace("-", "−") in page


def test_own_items_show_what_they_can(finished: Study) -> None:
    estimates = pq.read_table(finished.folder / "results/estimates/tiny.v1+x/terminal.parquet")
    counts = {row["measure"]: row["n"] for row in estimates.to_pylist() if row["group"] == "all"}
    assert counts["G"] == 10
    assert 0 < counts["repair"] < 10
    assert 0 < counts["p_repeat_fail"] < 10
    assert "terminal" in (finished.folder / "results/summary.txt").read_text(encoding="utf-8")


def wait(process: subprocess.Popen[str], until: Callable[[], object]) -> None:
    deadline = time.monotonic() + 300
    while not until():
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_snakemakes_report_has_every_table_and_figure(finished: Study) -> None:
    finished.run("--report", "snakemake.html")
    page = (finished.folder / "snakemake.html").read_text(encoding="utf-8")
    results = finished.folder / "results"
    shown = [*results.glob("tables/*.csv"), *results.glob("figures/*.svg")]
    shown += [results / "report.html", results / "models/tiny.v1+x/summary.md"]
    assert len(shown) > 20
    for path in shown:
        assert str(path.relative_to(finished.folder)) in page, path
    for label in ('"figure": "tokens"', '"table": "gain"', '"environment": "terminal"'):
        assert label in page
    assert "Where in the failed call its gain lies" in page, "no caption"


def test_interrupted_and_killed_it_finishes_by_itself(
    tmp_path: Path, tiny_model: Path, finished: Study
) -> None:
    study = Study(tmp_path / "killed", config_for(tiny_model))
    process = study.start(*estimates(study))
    wait(process, until=lambda: list((study.folder / "results/store").rglob("*.parquet")))
    os.killpg(process.pid, signal.SIGINT)  # what Ctrl-C does
    output, _ = process.communicate(timeout=20)
    assert "Traceback" not in output
    assert jobs_of(study) == []

    process = study.start(*estimates(study))
    wait(process, until=lambda: jobs_of(study))
    process.kill()  # the main process alone: its jobs must end with it
    process.wait()
    assert list((study.folder / ".snakemake/locks").glob("*.lock")), "no stale lock to overcome"
    study.run(*estimates(study))
    assert jobs_of(study) == []
    assert_close(study.frames(), finished.frames())


def test_a_condition_rewritten_scores_its_own_prompts_only(finished: Study) -> None:
    before = finished.frames()
    finished.edit(
        "workflow/backfire/conditions/writing.py",
        'f"Note: an earlier {what} failed',
        'f"Note: some earlier {what} failed',
    )
    jobs = finished.planned("all")
    assert jobs["score_core"] == 2  # one shard of each environment
    assert "build_pool" not in jobs
    finished.run(*estimates(finished))
    after = finished.frames()
    rescored = [row for path, rows in after.items() if "/abstract/" in path for row in rows]
    counts = finished.scoring_counts()
    assert counts["computed"] == len(
        {(r["prompt_sha256"], tuple(r["token_ids"])) for r in rescored}
    )
    assert counts["reused"] > 0
    for path, rows in before.items():
        if "/scores/" in path:
            assert (rows == after[path]) == ("/abstract/" not in path), path


def test_a_mistake_in_the_config_is_one_line(tmp_path: Path, tiny_model: Path) -> None:
    config = config_for(tiny_model)
    config["probes"]["core"]["conditions"][1] = "fial"
    study = Study(tmp_path / "study", config)
    output = study.run("all", expect=1)
    assert "config.yaml: probes.core.conditions: unknown condition 'fial'" in output
    assert "did you mean 'fail'?" in output
    assert "Traceback" not in output


def test_a_pool_too_small_is_one_line(tmp_path: Path, tiny_model: Path) -> None:
    study = Study(tmp_path / "study", config_for(tiny_model, items=5000))
    output = study.run("results/items/toolshed/core.parquet", expect=1)
    assert "error: 5000 items are asked for and the pool of" in output
    assert "Traceback" not in output
