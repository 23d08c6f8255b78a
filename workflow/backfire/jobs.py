"""What a script of the workflow does around its one call of the library."""

from __future__ import annotations

import errno
import os
import select
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NoReturn, TextIO

from backfire import locks
from backfire.errors import UserError
from backfire.user_conditions import register

RUN = "BACKFIRE_RUN"
"""The environment variable that names the process of the Snakemake that started a job."""

_UNWRITABLE = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM}


@contextmanager
def job(snakemake: Any) -> Iterator[TextIO]:
    """Send all output to the rule's log; yield the terminal, for a line of progress.

    A `UserError`, or a disk that is full or read-only, is one line on the terminal and ends the
    job; anything else is a bug and leaves its traceback in the log. A job whose Snakemake has
    died ends at once.
    """
    if RUN in os.environ:
        end_with(int(os.environ[RUN]))
    terminal = os.fdopen(os.dup(2), "w", encoding="utf-8", errors="backslashreplace")
    path = Path(snakemake.log[0])
    try:
        locks.join(Path(".snakemake"))
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w", encoding="utf-8", errors="backslashreplace") as log:
            os.dup2(log.fileno(), 1)
            os.dup2(log.fileno(), 2)
        register(snakemake.config.get("conditions", {}))
        yield terminal
        sys.stdout.flush()
    except UserError as error:
        _give_up(terminal, f"error: {error}")
    except KeyboardInterrupt:
        os._exit(130)  # whoever pressed Ctrl-C need not be told
    except Exception as error:
        if isinstance(error, OSError) and error.errno in _UNWRITABLE:
            where = f"{error.filename}: " if error.filename else ""
            _give_up(
                terminal,
                f"error: {where}{os.strerror(error.errno)}, in {snakemake.rule}; mend that and "
                "run again: what is finished is kept",
            )
        with suppress(OSError):  # a log that cannot be written must not hide the reason
            traceback.print_exc()
        _give_up(terminal, f"error: {snakemake.rule} failed; see {path}")


def _give_up(terminal: TextIO, line: str) -> NoReturn:
    if not os.path.sameopenfile(2, terminal.fileno()):  # the log, if it could be opened
        with suppress(OSError):
            print(line, file=sys.stderr, flush=True)
    print(line, file=terminal, flush=True)
    sys.exit(1)


def end_with(process: int) -> None:
    """End this process as soon as another one has: a killed Snakemake leaves no jobs behind."""
    try:
        descriptor = os.pidfd_open(process)
    except ProcessLookupError:
        os._exit(1)
    except (AttributeError, OSError):  # not on Linux, or not allowed
        watcher = threading.Thread(target=_poll, args=(process,), daemon=True)
    else:
        watcher = threading.Thread(target=_wait, args=(descriptor,), daemon=True)
    watcher.start()


def _wait(descriptor: int) -> None:
    select.select([descriptor], [], [])
    os._exit(1)


def _poll(process: int) -> None:
    while True:
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            os._exit(1)
        time.sleep(1)
