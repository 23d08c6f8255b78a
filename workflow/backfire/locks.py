"""One run at a time in a working directory, and no lock that outlives its run.

Snakemake's own lock is a file that a killed run leaves behind. The kernel's lock on an open
file ends with the process that holds it, so whoever gets it may clear what a dead run left.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from backfire.errors import UserError

_held: set[Path] = set()


def try_hold(state: Path) -> bool:
    """Hold the lock of a working directory until this process ends, unless another has it.

    Once it is held, locks of Snakemake's that lie there are a dead run's, and are cleared.

    Args:
        state: Snakemake's folder `.snakemake`.
    """
    path = state.resolve() / "backfire.lock"
    if path in _held:
        return True
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)  # never closed: that unlocks
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return False
    os.ftruncate(descriptor, 0)
    os.write(descriptor, f"process {os.getpid()} on {os.uname().nodename}\n".encode())
    _held.add(path)
    for stale in (path.parent / "locks").glob("*.lock"):
        stale.unlink(missing_ok=True)
    return True


def hold(state: Path) -> None:
    """`try_hold`, as a must.

    Raises:
        UserError: another run is at work in the directory.
    """
    if not try_hold(state):
        holder = (state / "backfire.lock").read_text(encoding="utf-8").strip()
        raise UserError(
            f"another run is at work in {state.resolve().parent} ({holder}): wait for it, stop "
            "it, or use another --directory"
        )
