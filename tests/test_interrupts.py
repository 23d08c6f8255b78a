"""Jobs and runs that are killed, doubled, or out of space: a clear end, and nothing is lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from backfire import locks
from backfire.errors import UserError
from backfire.storage import replacing, sweep

WORKFLOW = Path(__file__).parents[1] / "workflow"

JOB = """
import os, sys, time
from pathlib import Path
from types import SimpleNamespace
from backfire.jobs import job
with job(SimpleNamespace(log=[sys.argv[1]], config={{}}, rule="some_rule")):
    {work}
"""


def python(code: str, *arguments: str, cwd: Path, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(WORKFLOW), **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run_job(work: str, cwd: Path, log: str = "logs/job.log") -> tuple[int, str]:
    """A job's exit code, and what it shows on the terminal."""
    process = python(JOB.format(work=work), log, cwd=cwd)
    output, error = process.communicate(timeout=60)
    assert output == ""
    return process.returncode, error


def test_what_a_job_prints_goes_to_its_log(tmp_path: Path) -> None:
    assert run_job("print('hello'); print('there', file=sys.stderr)", tmp_path) == (0, "")
    assert set((tmp_path / "logs/job.log").read_text().split()) == {"hello", "there"}


def test_a_bug_leaves_its_traceback_in_the_log(tmp_path: Path) -> None:
    code, shown = run_job("1 / 0", tmp_path)
    assert (code, shown) == (1, "error: some_rule failed; see logs/job.log\n")
    assert "ZeroDivisionError" in (tmp_path / "logs/job.log").read_text()


def test_a_log_that_cannot_be_written_hides_no_error(tmp_path: Path) -> None:
    code, shown = run_job("1 / 0", tmp_path, log="/dev/full")
    assert (code, shown) == (1, "error: some_rule failed; see /dev/full\n")


def test_ctrl_c_ends_a_job_without_a_word(tmp_path: Path) -> None:
    assert run_job("os.kill(os.getpid(), 2); time.sleep(60)", tmp_path) == (130, "")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 64 kB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)]
    if subprocess.run(command, capture_output=True).returncode:
        pytest.skip("a small disk cannot be mounted here")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_a_full_disk_is_one_line(small_disk: Path) -> None:
    write = "from backfire.storage import write_text; write_text('table.csv', 'x' * 100_000)"
    code, shown = run_job(write, small_disk)
    assert code == 1
    assert shown == (
        "error: No space left on device, in some_rule; mend that and run again: what is finished "
        "is kept\n"
    )
    assert not list(small_disk.glob("*.csv*")), "something half-written was left"


def test_a_folder_that_cannot_be_written_is_one_line(small_disk: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    code, shown = run_job("print()", small_disk)
    assert code == 1
    assert shown.startswith("error: ") and "(Read-only file system)" in shown
    assert shown.count("\n") == 1


WAITING = "from backfire.jobs import end_with; {before}end_with({of}); print(1, flush=True)\n"
PARENT = """
import subprocess, sys, time
child = "import os, time; " + sys.argv[1].format(of="os.getppid()") + "time.sleep(60)"
print(subprocess.Popen([sys.executable, "-c", child]).pid, flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize("before", ["", "del os.pidfd_open; "], ids=["watching", "asking"])
def test_a_job_ends_with_its_snakemake(tmp_path: Path, before: str) -> None:
    parent = python(PARENT, WAITING.replace("{before}", before), cwd=tmp_path)
    assert parent.stdout is not None
    said = sorted(int(parent.stdout.readline()) for _ in range(2))
    assert said[0] == 1
    os.kill(said[1], 0)  # at work
    parent.kill()
    parent.wait()
    assert parent.stdout.read() == "", "the job closes what it shares with us when it ends"
    deadline = time.monotonic() + 5
    while Path(f"/proc/{said[1]}").exists() and time.monotonic() < deadline:
        time.sleep(0.05)  # until init has collected it


def test_what_killed_writers_left_is_swept_away_and_nothing_else(tmp_path: Path) -> None:
    kept = tmp_path / "folder/.of.mine.tmp"
    kept.parent.mkdir()
    kept.touch()
    killed = """
import os
from backfire.storage import replacing
with replacing("folder/model") as temporary:
    temporary.mkdir()
    (temporary / "weights").touch()
    os.kill(os.getpid(), 9)
"""
    assert python(killed, cwd=tmp_path).wait() == -signal.SIGKILL
    assert len(list(kept.parent.iterdir())) == 2
    with replacing(tmp_path / "folder/live.csv") as temporary:
        temporary.touch()
        assert sweep(tmp_path) == 1
        assert temporary.exists()
    assert list(tmp_path.rglob("*.tmp")) == [kept]


HOLD = "from backfire.locks import {how}; from pathlib import Path; import time; "


def holder(folder: Path, how: str) -> subprocess.Popen[str]:
    """Another process that has a lock."""
    code = HOLD.format(how=how) + f"{how}(Path('.snakemake')); print(1, flush=True); time.sleep(60)"
    process = python(code, cwd=folder)
    assert process.stdout is not None
    assert process.stdout.readline() == "1\n", process.communicate()[1]
    return process


def test_a_second_run_is_told_who_was_first(tmp_path: Path) -> None:
    first = holder(tmp_path, "hold")
    with pytest.raises(UserError, match=f"another run is at work in .*process {first.pid} on "):
        locks.hold(tmp_path / ".snakemake")
    stale = tmp_path / ".snakemake/locks/0.output.lock"
    stale.parent.mkdir()
    stale.touch()
    first.send_signal(signal.SIGKILL)
    first.wait()
    locks.hold(tmp_path / ".snakemake")
    assert not stale.exists()


def test_a_run_waits_for_the_jobs_of_a_dead_one(tmp_path: Path) -> None:
    jobs = [holder(tmp_path, "join"), holder(tmp_path, "join")]
    with pytest.raises(UserError, match="jobs of an earlier run are still at work"):
        locks.hold(tmp_path / ".snakemake", patience=0.3)
    for job in jobs:
        job.kill()
        job.wait()
    locks.hold(tmp_path / ".snakemake", patience=0.3)
