"""Which cage this system offers, and what it was seen to hold back."""

from __future__ import annotations

import functools
import os
import socket
import tempfile
from typing import Any

from backfire.environments.coderepair.sandbox.cage import CAGES, Cage
from backfire.environments.coderepair.sandbox.run import DEFAULT, Job, run
from backfire.errors import UserError

_PROBE = """
def attempt(action):
    try:
        action()
    except Exception:
        return False
    return True

def write():
    with open("probe", "w") as file:
        file.write("x")

def start():
    import os
    if os.fork() == 0:
        os._exit(0)

def connect(port):
    import socket
    socket.create_connection(("127.0.0.1", port), timeout=1).close()

def probe(secret, parent, port):
    import os
    return {
        "reads the user's files": attempt(lambda: open(secret).close()),
        "writes files": attempt(write),
        "opens connections": attempt(lambda: connect(port)),
        "starts processes": attempt(start),
        "signals other processes": attempt(lambda: os.kill(parent, 0)),
        "sees the environment": "PATH" in os.environ,
    }
"""


def works(cage: Cage) -> bool:
    """Whether the cage can be closed on this system and a program runs inside."""
    try:
        return _answer("def ready():\n    return True\n", "ready()", cage) is True
    except (OSError, RuntimeError):
        return False


@functools.cache
def best_cage() -> Cage:
    """The strongest cage in which a program runs on this system.

    Raises:
        UserError: not even an unconfined interpreter starts.
    """
    for cage in CAGES:
        if works(cage):
            return cage
    raise UserError(
        "no Python interpreter starts in an empty environment here, so no program can be run: "
        "use a Python that needs no LD_LIBRARY_PATH"
    )


def protections(cage: Cage | None = None) -> dict[str, Any]:
    """The cage, and what a program that tried could do in it.

    Returns:
        `walls` and `seccomp` as in `Cage`, `limits` by their names in setrlimit, and `allows`:
        for each attempt whether it succeeded, by what a probing program saw, not by what was
        asked of the system.
    """
    cage = best_cage() if cage is None else cage
    with tempfile.NamedTemporaryFile() as secret, socket.create_server(("127.0.0.1", 0)) as server:
        arguments = (secret.name, os.getpid(), server.getsockname()[1])
        seen = _answer(_PROBE, f"probe{arguments!r}", cage)
    if not isinstance(seen, dict):
        raise RuntimeError(f"the probe of the sandbox gave no answer in {cage}")
    return {
        "walls": cage.walls,
        "seccomp": cage.seccomp,
        "limits": dict(DEFAULT.resources()),
        "allows": dict(seen["dict"]),
    }


def _answer(source: str, call: str, cage: Cage) -> Any:
    """The value of one call, as sent; None where the program did not get to send it."""
    heard: list[dict[str, Any]] = []

    def listen(message: dict[str, Any]) -> bool:
        heard.append(message)
        return True

    ending = run(Job(source, [[call]]), listen, cage)
    if ending.how != "finished" or not heard or "values" not in heard[0]:
        return None
    return heard[0]["values"][0]
