"""What a run shows while it goes, and says when it has ended."""

from __future__ import annotations

import io
import logging
from pathlib import Path

import pyarrow as pa
import pytest

from backfire.progress import Job, Run, part_done
from backfire.storage import write_table


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def say(logger: logging.Logger, event: str, **more: object) -> None:
    logger.info(f"about {event}", extra={"event": event, **more})


@pytest.fixture
def logger() -> logging.Logger:
    logger = logging.Logger("snakemake")
    logger.setLevel(logging.INFO)
    return logger


@pytest.fixture
def jobs(tmp_path: Path) -> dict[int, Job]:
    """Two scoring jobs and one of another stage."""
    return {
        number: Job(stage, str(tmp_path / f"{number}.log"), str(tmp_path / f"{number}.parquet"))
        for number, stage in enumerate(["score_core", "score_core", "measure"])
    }


def test_what_a_jobs_own_bar_says(tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    assert part_done(str(log)) == 0
    log.write_text("loading\n", encoding="utf-8")
    assert part_done(str(log)) == 0
    bars = "".join(f"\r {n}%|█▌  | {n}/100 [00:01<00:10, 9tok/s]" for n in range(0, 43, 3))
    log.write_text("loading\n" + bars, encoding="utf-8")
    assert part_done(str(log)) == 0.42


def test_a_stage_counts_the_parts_of_its_running_jobs(
    logger: logging.Logger, jobs: dict[int, Job]
) -> None:
    run = Run(jobs, terminal=io.StringIO())
    run.follow(logger)
    assert run.fractions() == {}
    say(logger, "job_started", jobs=[0, 1])
    Path(jobs[0].log).write_text(" 50%|█▌  |", encoding="utf-8")
    assert run.fractions() == {"score_core": 0.5}
    say(logger, "job_finished", job_id=0)
    assert run.fractions() == {"score_core": 1.0}
    say(logger, "job_error", jobid=1)
    say(logger, "job_started", jobs=[2])
    assert run.fractions() == {"score_core": 1.0, "measure": 0.0}


def test_a_terminal_has_a_bar_per_stage_below_what_is_printed(
    logger: logging.Logger, jobs: dict[int, Job]
) -> None:
    terminal = Terminal()
    logger.addHandler(logging.StreamHandler(terminal))
    run = Run(jobs, terminal=terminal)
    run.follow(logger)
    say(logger, "job_started", jobs=[0, 2])
    say(logger, "job_finished", job_id=0)
    logger.warning("mind the gap")
    run.close_bars()
    shown = terminal.getvalue()
    assert "score_core        50%|" in shown
    assert "1.0 of 2 jobs" in shown
    assert "measure            0%|" in shown
    assert "mind the gap\n" in shown
    assert "about job_finished" not in shown  # the bar says it


def test_elsewhere_there_is_no_bar(logger: logging.Logger, jobs: dict[int, Job]) -> None:
    file = io.StringIO()
    logger.addHandler(logging.StreamHandler(file))
    run = Run(jobs, terminal=file)
    run.follow(logger)
    say(logger, "job_finished", job_id=0)
    run.close_bars()
    assert file.getvalue() == "about job_finished\n"


def test_the_end_says_what_ran_and_what_was_reused(
    logger: logging.Logger, jobs: dict[int, Job]
) -> None:
    run = Run(jobs, up_to_date=7, terminal=io.StringIO())
    run.follow(logger)
    for number, made in enumerate([{"computed": 30, "reused": 10}, {"computed": 0, "reused": 40}]):
        write_table(jobs[number].output, pa.table({}), made)
        say(logger, "job_finished", job_id=number)
    say(logger, "job_finished", job_id=99)  # a target, which makes nothing
    assert run.summary() == (
        "Ran 2 of 3 jobs in 0 min 0 s: 2 score_core. The results of 7 more were up to date. "
        "30 prompts were scored, 50 were in the store. Start again to go on."
    )


def test_the_end_says_what_failed_and_why(logger: logging.Logger, jobs: dict[int, Job]) -> None:
    """On a cluster nothing else does: the jobs' own terminals are elsewhere."""
    run = Run(jobs, terminal=io.StringIO())
    run.follow(logger)
    for number in jobs:
        say(logger, "job_error", jobid=number)
    Path(jobs[0].log).write_text("loading\nerror: no space\n", encoding="utf-8")
    say(logger, "job_finished", job_id=2)  # tried once more
    assert run.summary().splitlines()[1:] == [
        f"score_core failed: no space ({jobs[0].log})",
        f"score_core was stopped ({jobs[1].log})",
    ]
