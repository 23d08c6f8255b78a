"""Kill a small whole study again and again, and compare what it ends with: not in the suite.

Half of the kills hit Snakemake's main process alone, half of them everything, at random moments
of a run; each is followed by a resume. At the end all tables must be those of a study that was
never interrupted, and what was done twice is counted.

    python tests/kill_study.py [KILLS]
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).parents[1] / "workflow"))

from studies import Study, config_for, jobs_of, tiny_model

TOKENIZER = Path(__file__).parents[1] / "resources/models/bundled/smollm2-135m"


def start(study: Study) -> subprocess.Popen[str]:
    return study.start("all", "--rerun-incomplete")


def finish(study: Study) -> float:
    """Run a study to its end; seconds."""
    begun = time.monotonic()
    study.run("all", "--rerun-incomplete")
    return time.monotonic() - begun


def kill(study: Study, after: float, everything: bool) -> float:
    """Start, and kill after so many seconds unless it ended before; seconds that it ran."""
    begun = time.monotonic()
    process = start(study)
    try:
        output, _ = process.communicate(timeout=after)
        assert process.returncode == 0, output
    except subprocess.TimeoutExpired:
        (os.killpg if everything else os.kill)(process.pid, signal.SIGKILL)
        process.communicate()  # ends when the last job has closed the pipe: none lives on
    assert jobs_of(study) == []
    return time.monotonic() - begun


def scores_in_store(study: Study) -> list[bytes]:
    files = (study.folder / "results/store").rglob("*.parquet")
    return [key for path in files for key in pq.read_table(path)["key"].to_pylist()]


def tables(study: Study) -> dict[str, pd.DataFrame]:
    return {
        path.name: pd.read_csv(path) for path in (study.folder / "results/tables").glob("*.csv")
    }


def main(kills: int) -> None:
    chance = random.Random(8)
    with tempfile.TemporaryDirectory() as folder:
        model = tiny_model(Path(folder) / "model", TOKENIZER)
        whole = Study(Path(folder) / "whole", config_for(model))
        took = finish(whole)
        print(f"uninterrupted: {took:.0f} s, {len(scores_in_store(whole))} scores", flush=True)
        study = Study(Path(folder) / "killed", config_for(model))
        spent = 0.0
        for number in range(kills):
            # Late enough that a run gets somewhere, and often in the middle of its jobs.
            after = chance.uniform(4, max(10, took / 4))
            everything = number % 2 == 1
            ran = kill(study, after, everything)
            spent += ran
            shards = len(list((study.folder / "results/scores").rglob("*.parquet")))
            what = "everything" if everything else "the main process"
            print(
                f"kill {number + 1}, of {what}, after {ran:.1f} s: {shards} shards, "
                f"{len(scores_in_store(study))} scores",
                flush=True,
            )
        spent += finish(study)
        found, expected = tables(study), tables(whole)
        assert found.keys() == expected.keys()
        for name, frame in expected.items():
            pd.testing.assert_frame_equal(found[name], frame, rtol=1e-2, atol=1e-3, obj=name)
        keys = scores_in_store(study)
        left = list((study.folder / "results").rglob(".*.tmp"))
        print(f"{len(expected)} tables are equal")
        print(f"scored twice: {len(keys) - len(set(keys))} of {len(set(keys))} prompts")
        print(f"time: {spent:.0f} s in {kills + 1} starts, against {took:.0f} s in one")
        print(f"temporary files left behind: {len(left)}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20)
