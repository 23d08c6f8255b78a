"""Run one program in a cage, bounded, and hear what it sends until told to stop."""

from __future__ import annotations

import contextlib
import functools
import json
import marshal
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType
from typing import Any, Literal, NamedTuple

from backfire.environments.coderepair.sandbox.cage import Cage

_CHILD = Path(__file__).with_name("child.py")
_START = (
    "import marshal, sys; code, job = marshal.load(open(int(sys.argv[1]), 'rb')); "
    "exec(code, {'__name__': '__main__', 'JOB': job, 'WRITER': int(sys.argv[2])})"
)


@functools.cache
def _far_side() -> CodeType:
    """The compiled far side: compiling it anew would take as long as a program takes to run."""
    return compile(_CHILD.read_text(encoding="utf-8"), "sandbox", "exec")


class Job(NamedTuple):
    """A program, and for each of its tests the expressions whose values are asked for.

    Attributes:
        source: the program.
        calls: expressions, evaluated in the program's namespace, in order.
        setup: import statements that are run after the program and before the calls.
    """

    source: str
    calls: Sequence[Sequence[str]]
    setup: str = ""


@dataclass(frozen=True)
class Limits:
    """What a program may use.

    The limit on CPU time is what ends an endless loop, so that a busy machine ends no other
    program; the one on wall time, in seconds too, is for programs that wait.
    """

    cpu_seconds: int = 1
    wall_seconds: float = 10.0
    memory_bytes: int = 1 << 30
    open_files: int = 64
    sent_bytes: int = 1 << 20

    def resources(self) -> list[tuple[str, int]]:
        """The same for setrlimit. No file may be written to and no process started."""
        limits = [
            ("RLIMIT_CPU", self.cpu_seconds),
            ("RLIMIT_FSIZE", 0),
            ("RLIMIT_NOFILE", self.open_files),
            ("RLIMIT_NPROC", 0),
            ("RLIMIT_CORE", 0),
        ]
        if sys.platform != "darwin":  # which refuses any limit below what it reserves itself
            limits.append(("RLIMIT_AS", self.memory_bytes))
        return limits


DEFAULT = Limits()


class Ending(NamedTuple):
    """How a run ended.

    `finished`: by itself; `stopped`: nothing more was wanted; `timeout`: at a time limit;
    `crashed`: by a signal, an exit of its own or with a broken message, `detail` says which.
    """

    how: Literal["finished", "stopped", "timeout", "crashed"]
    detail: str = ""


Listener = Callable[[dict[str, Any]], bool]
"""Takes one message of the program; says whether more is wanted."""


def run(job: Job, listen: Listener, cage: Cage, limits: Limits = DEFAULT) -> Ending:
    """Run a program and hand each of its messages to `listen`.

    On return, the program and all that it started are dead, and its folder is gone.

    Raises:
        RuntimeError: the cage could not be closed, so the program was not run.
        TimeoutError: nor did that become known in time.
    """
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="backfire-"))
        task = {**job._asdict(), "limits": limits.resources(), **cage.confinement()}
        task["calls"] = [list(calls) for calls in job.calls]
        incoming = stack.enter_context(_holding(marshal.dumps((_far_side(), task))))
        handed = [incoming]
        barrier = cage.outer_filter()
        if barrier is not None:
            handed.append(stack.enter_context(_holding(barrier)))
        reader, writer = os.pipe()
        stack.callback(os.close, reader)
        command = cage.command(handed[1] if barrier is not None else None)
        try:
            process = subprocess.Popen(
                [*command, "-c", _START, str(incoming), str(writer)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=cage.environment(),
                cwd=folder,
                pass_fds=[*handed, writer],
                start_new_session=True,
            )
        finally:
            os.close(writer)
        deadline = time.monotonic() + limits.wall_seconds
        try:
            return _hear(process, reader, listen, deadline, limits)
        finally:
            _end(process)


@contextlib.contextmanager
def _holding(data: bytes) -> Iterator[int]:
    """A descriptor from which the data can be read; it has no name on disk."""
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.seek(0)
        yield file.fileno()


def _hear(
    process: subprocess.Popen[bytes],
    reader: int,
    listen: Listener,
    deadline: float,
    limits: Limits,
) -> Ending:
    lines = _lines(reader, deadline, limits.sent_bytes)
    _confined(next(lines, b""))
    try:
        for line in lines:
            message = json.loads(line)
            if not isinstance(message, dict):
                raise ValueError("not an object")
            if not listen(message):
                return Ending("stopped")
        _await(process, deadline)
    except TimeoutError:
        return Ending("timeout")
    except (ValueError, RecursionError):
        return Ending("crashed", "broken message")
    code = _end(process)
    number = -code if code < 0 else code - 128  # bubblewrap passes a signal on as 128 + n
    if number in (signal.SIGXCPU, signal.SIGKILL):
        return Ending("timeout")
    if number > 0:
        with contextlib.suppress(ValueError):
            return Ending("crashed", signal.strsignal(number) or f"signal {number}")
    return Ending("finished") if code == 0 else Ending("crashed", f"exit status {code}")


def _confined(first: bytes) -> None:
    """Check the first message. It comes before the program runs, so no program can have sent it."""
    message = json.loads(first) if first else {"unconfined": "it did not start"}
    if "unconfined" in message:
        raise RuntimeError(f"the sandbox failed: {message['unconfined']}")


def _await(process: subprocess.Popen[bytes], deadline: float) -> None:
    """Wait for the end of a process without reaping it, so that its number stays its own.

    Raises:
        TimeoutError: the deadline passed.
    """
    if sys.platform == "darwin":  # where waitid came with Python 3.13
        try:
            process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired as error:
            raise TimeoutError from error
        return
    pause = 0.0005
    while os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        if time.monotonic() > deadline:
            raise TimeoutError
        time.sleep(pause)
        pause = min(2 * pause, 0.02)


def _end(process: subprocess.Popen[bytes]) -> int:
    """Kill what is left of the process and its group, and say how the process ended."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):  # a group of zombies
            os.killpg(process.pid, signal.SIGKILL)
    return process.wait()


def _lines(reader: int, deadline: float, limit: int) -> Iterator[bytes]:
    """The lines that arrive until the far side closes.

    Raises:
        TimeoutError: the deadline passed.
        ValueError: more than `limit` bytes came, or an unfinished line.
    """
    pending, total = b"", 0
    arrival = select.poll()
    arrival.register(reader, select.POLLIN)
    while True:
        if not arrival.poll(max(0.0, deadline - time.monotonic()) * 1000):
            raise TimeoutError
        chunk = os.read(reader, 1 << 16)
        if not chunk:
            break
        total += len(chunk)
        if total > limit:
            raise ValueError("too much was sent")
        *lines, pending = (pending + chunk).split(b"\n")
        yield from lines
    if pending:
        raise ValueError("an unfinished line")
