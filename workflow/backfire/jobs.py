"""What a script of the workflow does around its one call of the library."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from backfire.errors import UserError
from backfire.user_conditions import register


@contextmanager
def job(snakemake: Any) -> Iterator[TextIO]:
    """Send all output to the rule's log; yield the terminal, for a line of progress.

    A `UserError` is one line on the terminal and ends the job; anything else is a bug and
    leaves its traceback in the log.
    """
    path = Path(snakemake.log[0])
    path.parent.mkdir(parents=True, exist_ok=True)
    terminal = os.fdopen(os.dup(2), "w", encoding="utf-8", errors="backslashreplace")
    with path.open("w", encoding="utf-8", errors="backslashreplace") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
        try:
            register(snakemake.config.get("conditions", {}))
            yield terminal
        except UserError as error:
            print(error, file=sys.stderr, flush=True)
            print(f"error: {error}", file=terminal, flush=True)
            sys.exit(1)
        except Exception:
            traceback.print_exc()
            print(f"error: {snakemake.rule} failed; see {path}", file=terminal, flush=True)
            sys.exit(1)
        finally:
            sys.stdout.flush()
            terminal.flush()
