"""Rollouts as people run them: a real snakemake on a tiny study."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from studies import Study

pytestmark = pytest.mark.slow

CELL = "tiny/toolshed"


def config_for(model: Path) -> dict[str, Any]:
    return {
        "seed": 1,
        "models": {"tiny": {"source": f"path:{model}"}},
        "environments": {"toolshed": {"kind": "toolshed", "per_task": 3}},
        "probes": {
            "core": {
                "conditions": ["pre", "fail", "succ", "neut", "abstract"],
                "items": {"toolshed": 4},
            }
        },
        "rollouts": {
            "toolshed": {
                "tasks": 2,
                "steps": 2,
                "harnesses": ["verbatim", "drop"],
                "demonstrations": "format",
                "temperature": 0.7,
                "samples": 1,
                "branches": {"samples": 0, "attempts": 2},
            }
        },
        "statistics": {"resamples": 200, "confidence": 0.95},
        "checks": {"pairs": 2},
        "scoring": {"threads": 1},
        "shard_size": 4,
    }


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, tiny_model: Path) -> Study:
    study = Study(tmp_path_factory.mktemp("study"), config_for(tiny_model))
    study.run("rollouts")
    return study


def test_everything_that_is_promised_is_there(finished: Study) -> None:
    results = finished.folder / "results"
    for name in ("rollouts.md", "figures/rollouts.svg", "tables/table8_toolshed.md"):
        assert (results / name).stat().st_size > 100, name
    rows = pq.read_table(results / f"own_failures/{CELL}/items.parquet").to_pylist()
    scored = pq.read_table(results / f"own_failures/{CELL}/scores.parquet").to_pylist()
    assert {row["item_id"] for row in rows} == {row["item_id"] for row in scored}
    assert {row["operator"] for row in rows} == {"own"}
    metadata = pq.read_schema(results / f"rollouts/{CELL}/verbatim/seed1.parquet").metadata
    made = json.loads(metadata[b"backfire"])
    assert made["temperature"] == 0.7
    assert made["generated_tokens"] > 0


def test_rollouts_are_a_part_of_all(finished: Study) -> None:
    jobs = finished.planned("all")
    assert "make_report" in jobs
    assert not {job for job in jobs if "roll" in job or "branch" in job or "own" in job}
    assert "Nothing to be done" in finished.run("rollouts")


def test_the_report_has_their_section(finished: Study) -> None:
    finished.run("all")
    page = (finished.folder / "results/report.html").read_text(encoding="utf-8")
    section = page.partition('id="rollouts"')[2].partition("</section>")[0]
    assert "2 tasks of up to 2 turns under 2 harnesses" in section
    for table in ("table8_toolshed", "own_failures", "rollout_speed"):
        assert f"tables/{table}.csv" in section
    assert section.count("data:image/svg+xml") == 6, "three figures, light and dark"
    assert "roll_out" in page, "time and memory of its jobs"


TARGETS = [
    f"results/rollouts/{CELL}/verbatim/greedy.parquet",
    f"results/rollouts/{CELL}/verbatim/seed1.parquet",
]


def test_killed_in_the_middle_finished_rollouts_are_kept(
    tmp_path: Path, tiny_model: Path, finished: Study
) -> None:
    study = Study(tmp_path / "killed", config_for(tiny_model))
    process = study.start("--cores", "1", *TARGETS)
    logs, deadline = study.folder / "results/logs/roll_out", time.monotonic() + 300
    while len(list(logs.rglob("*.log"))) < 2:  # one job at a time: the second has begun
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < deadline
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    [done] = [path for target in TARGETS if (path := study.folder / target).exists()]
    written = done.stat().st_mtime_ns
    study.run(*TARGETS)
    assert done.stat().st_mtime_ns == written
    for target in TARGETS:
        rows, same = (pq.read_table(one.folder / target).to_pylist() for one in (study, finished))
        assert rows == same, target


def test_a_mistake_in_the_config_is_one_line(tmp_path: Path, tiny_model: Path) -> None:
    config = config_for(tiny_model)
    config["rollouts"]["toolshed"]["harnesses"] = ["verbatim", "verbtim+ban"]
    output = Study(tmp_path / "study", config).run("rollouts", expect=1)
    assert "rollouts.toolshed.harnesses: unknown harness 'verbtim+ban'" in output
    assert "Traceback" not in output
