"""The study on a real Slurm: one job per shard, one of them cancelled, finished by a second start.

`tests/start_slurm.sh` starts a Slurm of one node.
"""

from __future__ import annotations

import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from studies import Study


def slurm_is_up() -> bool:
    if shutil.which("sinfo") is None:
        return False
    command = ["timeout", "5", "sinfo", "--noheader", "--format=%T"]
    done = subprocess.run(command, capture_output=True, text=True)
    return done.returncode == 0 and bool({"idle", "mixed"} & set(done.stdout.split()))


pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not slurm_is_up(), reason="no Slurm here; as root: tests/start_slurm.sh"),
]

TARGET = "results/models/tiny/summary.md"
ARGUMENTS = (
    *("--profile", "workflow/profiles/slurm"),
    *("--retries", "0"),
    *("--latency-wait", "5"),
    # Without accounting; see docs/cluster.md.
    *("--slurm-no-account", "--slurm-status-command", "squeue"),
    *("--slurm-init-seconds-before-status-checks", "5"),
)


def config_for(model: Path) -> dict[str, Any]:
    return {
        "seed": 1,
        "models": {"tiny": {"source": f"path:{model}"}},
        "environments": {"toolshed": {"kind": "toolshed", "per_task": 3}},
        "probes": {"core": {"conditions": ["pre", "fail"], "items": {"toolshed": 6}}},
        "statistics": {"resamples": 200, "confidence": 0.95},
        "checks": {"pairs": 2},
        "shard_size": 3,
    }


def running() -> dict[str, str]:
    """Slurm's jobs that run, by number, with what Snakemake says of them."""
    command = ["squeue", "--noheader", "--states=RUNNING", "--format=%i %k"]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    return dict(line.split(maxsplit=1) for line in lines)


def test_a_job_cancelled_it_finishes_by_a_second_start(tmp_path: Path, tiny_model: Path) -> None:
    study = Study(tmp_path / "study", config_for(tiny_model))
    arguments = [*ARGUMENTS, "--configfile", "alone.yaml"]
    (study.folder / "config.yaml").rename(study.folder / "alone.yaml")
    # Laid over this one, which the jobs must not do, it would ask for more items than are drawn.
    study.configure({"probes": {"more": {"conditions": ["succ"], "items": {"toolshed": 30}}}})
    process = study.start(TARGET, *arguments)
    deadline = time.monotonic() + 600
    while not (scoring := [job for job, rule in running().items() if "score_core" in rule]):
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < deadline
        time.sleep(0.2)
    subprocess.run(["scancel", scoring[0]], check=True)
    output, _ = process.communicate(timeout=600)
    assert process.returncode == 1, output
    assert "score_core was stopped (results/logs/score_core/" in output
    assert not (study.folder / TARGET).exists()

    study.run(TARGET, *arguments)
    assert not running()
    shards = sorted((study.folder / "results/scores").rglob("*.parquet"))
    assert [path.name for path in shards] == ["0.parquet", "1.parquet"] * 2
    rows = pq.read_table(study.folder / "results/estimates/tiny/toolshed.parquet").to_pylist()
    [whole] = [row for row in rows if row["measure"] == "G" and row["group"] == "all"]
    assert whole["n"] == 6
