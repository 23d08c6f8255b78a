"""A run as it goes on a terminal, one bar per stage, and what it did when it has ended.

Jobs keep their own bars in their logs, where they belong; what is shown here is read from there,
so that a stage's time left counts the parts of the jobs that are at work.
"""

from __future__ import annotations

import logging
import re
import sys
import threading
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from tqdm import tqdm  # type: ignore[import-untyped]

from backfire.storage import read_made

_PERCENT = re.compile(rb"(\d+)%\|")
_LAYOUT = (
    "{desc} {percentage:3.0f}%|{bar:30}| {n:.1f} of {total:.0f} jobs, {elapsed}, {remaining} left"
)

_SHOWN = {"job_started", "job_finished", "progress"}
"""Events that the bars tell of."""


@dataclass(frozen=True)
class Job:
    """A job that a run will execute: its rule, and where its log and first result lie."""

    stage: str
    log: str
    output: str


def part_done(log: str) -> float:
    """How much of a running job is done, from 0 to 1: what the last bar in its log says."""
    try:
        with Path(log).open("rb") as file:
            file.seek(max(0, file.seek(0, 2) - 400))
            found = _PERCENT.findall(file.read())
    except FileNotFoundError:
        return 0.0
    return int(found[-1]) / 100 if found else 0.0


def last_words(job: Job) -> str:
    """Why a job ended before its time, as far as its log tells."""
    try:
        lines = Path(job.log).read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        lines = []
    errors = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
    return f"{job.stage} {f'failed: {errors[-1]}' if errors else 'was stopped'} ({job.log})"


class Run(logging.Handler):
    """Follows a run through the events that Snakemake logs.

    Args:
        jobs: what will be executed, by Snakemake's number of the job.
        up_to_date: how many more jobs the targets need, whose results are there already.
        terminal: where to show bars; none are shown if it is not one.
    """

    def __init__(
        self, jobs: Mapping[int, Job], up_to_date: int = 0, terminal: TextIO = sys.stderr
    ) -> None:
        super().__init__()
        self.jobs = jobs
        self.up_to_date = up_to_date
        self.terminal = terminal
        self.running: set[int] = set()
        self.finished: list[int] = []
        self.failed: dict[int, None] = {}
        self.totals = Counter(job.stage for job in jobs.values())
        self.bars: dict[str, Any] = {}
        self._printed: set[str] = set()
        self._start = time.monotonic()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._show, daemon=True)

    def follow(self, logger: logging.Logger) -> None:
        """Begin, and keep what the logger prints out of the bars' way."""
        logger.addHandler(self)
        if self.terminal.isatty():
            for handler in logger.handlers:
                if isinstance(handler, logging.StreamHandler) and handler.stream is self.terminal:
                    handler.setStream(_Above(self.terminal))
                    handler.addFilter(_beside_bars)
            self._thread.start()

    def emit(self, record: logging.LogRecord) -> None:
        said = record.__dict__
        match said.get("event"):
            case "job_started":
                self.running.update(said["jobs"])
            case "job_finished":
                self.running.discard(said["job_id"])
                self.finished.append(said["job_id"])
                self.failed.pop(said["job_id"], None)  # the second try went well
            case "job_error":
                self.running.discard(said["jobid"])
                self.failed[said["jobid"]] = None

    def fractions(self) -> dict[str, float]:
        """Jobs done of each stage that has begun, parts of jobs included."""
        done: dict[str, float] = {}
        for numbers, part in ((self.finished, lambda _: 1.0), (self.running, part_done)):
            for job in (self.jobs[number] for number in list(numbers) if number in self.jobs):
                done[job.stage] = done.get(job.stage, 0.0) + part(job.log)
        return done

    def _show(self) -> None:
        while not self._over.wait(1):
            self._draw()

    def _draw(self) -> None:
        for stage, done in self.fractions().items():
            if stage in self._printed:
                continue
            if stage not in self.bars:
                self.bars[stage] = tqdm(
                    total=self.totals[stage],
                    desc=f"{stage:<16}",
                    bar_format=_LAYOUT,
                    file=self.terminal,
                    leave=False,
                )
            self.bars[stage].n = done
            if done < self.totals[stage]:
                self.bars[stage].refresh()
            else:
                self._print(stage)

    def _print(self, stage: str) -> None:
        """Leave the bar of a stage that is over as a line above the others."""
        bar = self.bars.pop(stage)
        line = str(bar)
        bar.close()
        tqdm.write(line, file=self.terminal)
        self._printed.add(stage)

    def close_bars(self) -> None:
        """Draw the bars a last time and leave the terminal to others."""
        if self._thread.is_alive():
            self._over.set()
            self._thread.join()
            self._draw()
            for stage in list(self.bars):
                self._print(stage)

    def summary(self) -> str:
        """What ran, what was reused, how long it took, and what failed."""
        ran = [self.jobs[number] for number in self.finished if number in self.jobs]
        stages = Counter(job.stage for job in ran)
        parts = ", ".join(f"{count} {stage}" for stage, count in stages.items())
        minutes, seconds = divmod(round(time.monotonic() - self._start), 60)
        took = f"{minutes} min {seconds} s"
        lines = [
            f"Ran {len(ran)} of {len(self.jobs)} jobs in {took}{': ' if parts else ''}{parts}."
        ]
        if self.up_to_date:
            lines.append(f"The results of {self.up_to_date} more were up to date.")
        made = [
            read_made(job.output)
            for job in ran
            if job.stage.startswith("score_") and Path(job.output).suffix == ".parquet"
        ]
        if made:
            computed = sum(one.get("computed", 0) for one in made)
            reused = sum(one.get("reused", 0) for one in made)
            lines.append(f"{computed} prompts were scored, {reused} were in the store.")
        if len(ran) < len(self.jobs):
            lines.append("Start again to go on.")
        failed = [last_words(self.jobs[number]) for number in self.failed if number in self.jobs]
        return "\n".join([" ".join(lines), *failed])


def _beside_bars(record: logging.LogRecord) -> bool:
    """Whether a record says more than the bars do."""
    said = record.__dict__
    return said.get("event") not in _SHOWN and not str(said["msg"]).startswith("Select jobs")


class _Above:
    """A terminal whose lines go above the bars."""

    def __init__(self, terminal: TextIO) -> None:
        self._terminal = terminal

    def write(self, text: str) -> None:
        tqdm.write(text, file=self._terminal, end="")

    def flush(self) -> None:
        self._terminal.flush()

    def isatty(self) -> bool:
        return True


_runs: list[Run] = []


def begin(run: Run, logger: logging.Logger) -> None:
    """Follow the one run of this process."""
    _runs.append(run)
    run.follow(logger)


def end() -> str:
    """Close the bars of the run; its summary."""
    run = _runs.pop()
    run.close_bars()
    return run.summary()
