"""One run at a time in a working directory, and no lock that outlives its run.

Snakemake's own lock is a file that a killed run leaves behind. The kernel's lock on an open
file ends with the process that holds it, so whoever gets it may clear what a dead run left.
A run holds one lock; each of its jobs has a share in a second one, so that a new run knows
whether jobs of a dead one are still at work, on this machine or on another.
"""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

from backfire.errors import UserError

_held: set[Path] = set()


def try_hold(state: Path) -> bool:
    """Hold the lock of a working directory until this process ends, unless another has it.

    Once it is held, locks of Snakemake's that lie there are a dead run's, and are cleared.

    Args:
        state: Snakemake's folder `.snakemake`.

    Raises:
        UserError: the directory cannot be written.
    """
    path = state.resolve() / "backfire.lock"
    if path in _held:
        return True
    descriptor = _lock(path, fcntl.LOCK_EX)
    if descriptor is None:
        return False
    os.ftruncate(descriptor, 0)
    os.write(descriptor, f"process {os.getpid()} on {os.uname().nodename}\n".encode())
    _held.add(path)
    for stale in (path.parent / "locks").glob("*.lock"):
        stale.unlink(missing_ok=True)
    return True


def hold(state: Path, patience: float = 10) -> None:
    """`try_hold`, as a must, once no job of an earlier run is at work.

    Args:
        patience: seconds that such jobs are given to end.

    Raises:
        UserError: another run, or a job of an earlier one, is at work in the directory.
    """
    if not try_hold(state):
        raise UserError(held_by_another(state))
    deadline = time.monotonic() + patience
    while (descriptor := _lock(_jobs_of(state), fcntl.LOCK_EX)) is None:
        if time.monotonic() > deadline:
            raise UserError(
                f"jobs of an earlier run are still at work in {state.resolve().parent}, perhaps "
                "on another machine: wait for them or cancel them, then start again"
            )
        time.sleep(0.1)
    os.close(descriptor)


def held_by_another(state: Path) -> str:
    """What to say where `try_hold` has failed."""
    holder = (state / "backfire.lock").read_text(encoding="utf-8").strip()
    return (
        f"another run is at work in {state.resolve().parent} ({holder}): wait for it, stop it, or "
        "use another --directory"
    )


def join(state: Path) -> None:
    """Show, until this process ends, that a job is at work in the directory."""
    _lock(_jobs_of(state), fcntl.LOCK_SH)


def _jobs_of(state: Path) -> Path:
    return state.resolve() / "backfire.jobs.lock"


def _lock(path: Path, kind: int) -> int | None:
    """A descriptor whose lock lasts until it is closed, by the end of the process at the latest;
    None if others have the lock."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise UserError(f"{path}: cannot be written ({error.strerror})") from None
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor
