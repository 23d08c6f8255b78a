"""Kill a small whole study, resume it, and compare: twenty times over; not in the suite.

Each time a new study is killed at a random moment, every other time Snakemake's main process alone
and else everything, and then resumed to its end. Its tables must be those of a study that was never
interrupted, and what was done twice is counted.

    python tests/kill_study.py [KILLS]
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).parents[1] / "workflow"))

from studies import Study, config_for, jobs_of, tiny_model

TOKENIZER = Path(__file__).parents[1] / "resources/models/bundled/smollm2-135m"


def run(study: Study, kill_after: float | None, everything: bool = False) -> tuple[float, int]:
    """Run a study to its end or to its kill: the seconds and how many jobs it finished."""
    begun = time.monotonic()
    process = study.start("all")
    try:
        output, _ = process.communicate(timeout=kill_after)
        assert process.returncode == 0, output
    except subprocess.TimeoutExpired:
        (os.killpg if everything else os.kill)(process.pid, signal.SIGKILL)
        output, _ = process.communicate()  # ends when the last job has closed the pipe
    took = time.monotonic() - begun
    deadline = time.monotonic() + 5  # a job that had done its work has its interpreter to close
    while jobs_of(study):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    return took, output.count("Finished jobid: ")


def scores_in_store(study: Study) -> list[bytes]:
    files = (study.folder / "results/store").rglob("*.parquet")
    return [key for path in files for key in pq.read_table(path)["key"].to_pylist()]


def tables(study: Study) -> dict[str, pd.DataFrame]:
    return {
        path.name: pd.read_csv(path) for path in (study.folder / "results/tables").glob("*.csv")
    }


def difference(found: dict[str, pd.DataFrame], expected: dict[str, pd.DataFrame]) -> float:
    """Check that tables are the same; the largest difference between two of their numbers."""
    assert found.keys() == expected.keys()
    largest = 0.0
    for name, frame in expected.items():
        # A resumed job packs what is left otherwise: log-probabilities differ by rounding.
        pd.testing.assert_frame_equal(found[name], frame, rtol=0, atol=1e-3, obj=name)
        numbers = frame.select_dtypes("number")
        gaps = (found[name][numbers.columns] - numbers).abs().to_numpy()
        largest = max([largest, *gaps[~np.isnan(gaps)]])
    return largest


def main(kills: int) -> None:
    chance = random.Random(8)
    with tempfile.TemporaryDirectory() as folder:
        model = tiny_model(Path(folder) / "model", TOKENIZER)
        whole = Study(Path(folder) / "whole", config_for(model))
        took, jobs = run(whole, None)
        expected, prompts = tables(whole), len(scores_in_store(whole))
        print(f"uninterrupted: {took:.0f} s, {jobs} jobs, {prompts} prompts scored", flush=True)
        seconds = largest = 0.0
        jobs_again = scored_again = left = 0
        for number in range(kills):
            study = Study(Path(folder) / str(number), config_for(model))
            ran, before = run(study, chance.uniform(0, took), everything=number % 2 == 1)
            kept = len(scores_in_store(study))
            resumed, after = run(study, None)
            gap = difference(tables(study), expected)
            print(
                f"kill {number + 1} of {'everything' if number % 2 else 'the main process'} "
                f"after {ran:.1f} s: {before} jobs, {kept} prompts; resumed: {resumed:.1f} s, "
                f"{after} jobs; tables equal, largest difference {gap:.1g}",
                flush=True,
            )
            largest = max(largest, gap)
            seconds += ran + resumed - took
            jobs_again += before + after - jobs
            scored_again += len(scores_in_store(study)) - prompts
            left += len(list((study.folder / "results").rglob(".*.tmp")))
            shutil.rmtree(study.folder)
        print(f"{kills} times, {len(expected)} tables equal; largest difference {largest:.1g}")
        print(f"finished twice: {jobs_again} jobs; scored twice: {scored_again} prompts")
        print(
            f"a kill and its resume took {seconds / kills:.1f} s more than {took:.0f} s on average"
        )
        print(f"temporary files left behind: {left}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20)
