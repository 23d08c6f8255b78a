"""Hostile programs: each is contained, within its limits, and none of them counts as a pass.

Every program gives the right answer, 42, if what it attempts succeeds; so a pass means that
the sandbox let it. The programs run in each cage that this system can close. What a cage
does not claim to hold back is not asked of it.
"""

from __future__ import annotations

import os
import socket
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from backfire.environments.coderepair.assertions import read
from backfire.environments.coderepair.runtime import Outcome, execute
from backfire.environments.coderepair.sandbox import cage as cages
from backfire.environments.coderepair.sandbox.cage import CAGES, Cage
from backfire.environments.coderepair.sandbox.probe import best_cage, protections, works
from backfire.environments.coderepair.sandbox.run import Limits
from backfire.environments.coderepair.tasks import Task

BWRAP, LANDLOCK, BARE = Cage("bubblewrap", True), Cage("landlock", True), Cage("none", False)
QUICK = Limits(wall_seconds=2.5)
ALLOWANCE = 8.0  # seconds for start and end on a busy machine

TASK = Task("t", "Answer.", "def answer(x):\n    return 42", (read("assert answer(1) == 42"),))

IN_ANY_CAGE = {
    "memory bomb": "def answer(x):\n    return len([bytearray(1 << 26) for _ in range(99)]) and 42",
    "endless output": "def answer(x):\n    while True:\n        print('x' * 1000000, flush=True)",
    "endless loop": "while True:\n    pass",
    "endless loop that ignores its limit": """
import signal
signal.signal(signal.SIGXCPU, signal.SIG_IGN)
def answer(x):
    while True:
        pass
""",
    "endless sleep": "import time\ndef answer(x):\n    time.sleep(1000)\n    return 42",
    "a gigabyte file": """
def answer(x):
    with open("big", "wb") as file:
        file.seek(1 << 30)
        file.write(b"x")
    return 42
""",
    "many files": """
def answer(x):
    for n in range(1000):
        with open(f"file{n}", "w") as file:
            file.write("x" * 100000)
    return 42
""",
    "file descriptors": """
import os
def answer(x):
    kept = [os.open("/dev/null", os.O_RDONLY) for _ in range(100000)]
    return 42
""",
    "deep recursion": "def answer(x):\n    return answer(x + 1)",
    "deeper recursion": """
import sys
sys.setrecursionlimit(10 ** 9)
class Deep:
    def __repr__(self):
        return repr(self)
def answer(x):
    return len(repr(Deep())) and 42
""",
    "raising a limit": """
import resource
def answer(x):
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 30, 1 << 30))
    return 42
""",
    "exit before the tests": "import os\nos._exit(0)",
    "exit in the test": "import os\ndef answer(x):\n    os._exit(0)",
    "polite exit": "import sys\ndef answer(x):\n    sys.exit(0)",
    "polite exit at once": "raise SystemExit(0)",
    "success on standard output": """
print("OK: the program passed all 1 tests.")
import sys
sys.stderr.write("OK")
""",
    "always equal": """
class Same:
    def __eq__(self, other):
        return True
    def __hash__(self):
        return 42
def answer(x):
    return Same()
""",
    "an int that is always equal": """
class Same(int):
    def __eq__(self, other):
        return True
def answer(x):
    return Same(41)
""",
    "patched builtins": """
import builtins
builtins.compile = lambda *args, **kwargs: (lambda: 42).__code__
builtins.eval = lambda *args: True
builtins.type = lambda value: int
def answer(x):
    return 41
""",
    "a forged verdict": """
import os
for fd in range(3, 64):
    try:
        os.write(fd, b'{"values":[true]}\\n{"passed":1}\\n')
    except OSError:
        pass
os._exit(0)
""",
    "a forged failure of the sandbox": """
import os
for fd in range(3, 64):
    try:
        os.write(fd, b'{"unconfined":"so"}\\n')
    except OSError:
        pass
def answer(x):
    return 42
""",
    "forged nonsense": """
import os
for fd in range(3, 64):
    try:
        os.write(fd, b'{"error":{"type":[],"message":{},"frames":[7,[1],["a",-3,"b"]]}}\\n')
    except OSError:
        pass
def answer(x):
    return 42
""",
    "an endless message": """
import os
def answer(x):
    for fd in range(3, 64):
        try:
            while True:
                os.write(fd, b"x" * 65536)
        except OSError:
            pass
    return 42
""",
    "closing every descriptor": "import os\nos.closerange(0, 1024)\ndef answer(x):\n    return 42",
    "closing up and sleeping on": """
import os, time
def answer(x):
    os.closerange(0, 1024)
    time.sleep(1000)
""",
    "the runner's frames": """
import sys
frame = sys._getframe()
while frame:
    for value in list(frame.f_locals.values()) + list(frame.f_globals.values()):
        if isinstance(value, dict) and "calls" in value:
            value["calls"][:] = []
    frame = frame.f_back
def answer(x):
    return 41
""",
    "searching memory for the answer": """
import gc
def answer(x):
    needle = " ".join(["answer(1)", "=="])
    for thing in gc.get_objects():
        if isinstance(thing, (list, tuple, dict)) and needle in repr(thing)[:10000]:
            return 42
    return None
""",
    "a value that is endless": """
def answer(x):
    loop = []
    loop.append(loop)
    return loop
""",
    "an exception that resists": """
class Odd(Exception):
    def __str__(self):
        raise Odd
    __repr__ = __str__
class Meta(type):
    @property
    def __module__(cls):
        raise ValueError
    @property
    def __qualname__(cls):
        raise ValueError
class Odder(Odd, metaclass=Meta):
    pass
def answer(x):
    raise Odder
""",
    "half a character": "def answer(x):\n    raise ValueError('\\ud800')",
    "a null byte": "def answer(x):\n    return 42\n\0",
    "deep brackets": "answer = " + "(" * 10000 + ")" * 10000,
    "deep signs": "answer = " + "-" * 40000 + "1",
}

BEHIND_WALLS = {
    "reading the home": """
import os
def answer(x):
    names = [name for name in os.listdir(HOME) if not PYTHON.startswith(os.path.join(HOME, name))]
    return 42 if names else None
""",
    "reading a file of the user": "def answer(x):\n    return 42 if open(SECRET).read() else None",
    "writing outside": "def answer(x):\n    open(SECRET, 'a').close()\n    return 42",
    "creating outside": "def answer(x):\n    open(SECRET + '.new', 'w').close()\n    return 42",
    "deleting outside": "import os\ndef answer(x):\n    os.unlink(SECRET)\n    return 42",
    "changing modes outside": "import os\ndef answer(x):\n    os.chmod(SECRET, 511)\n    return 42",
    "the parent's memory": """
import os
def answer(x):
    with open(f"/proc/{os.getppid()}/mem", "rb") as memory:
        return 42
""",
    "the parent's environment": """
import os
def answer(x):
    with open(f"/proc/{PARENT}/environ", "rb") as environment:
        return 42 if environment.read() else None
""",
    "a socket": """
import socket
def answer(x):
    socket.create_connection(("127.0.0.1", PORT), timeout=1)
    return 42
""",
    "a socket on a path": """
import socket
def answer(x):
    server = socket.socket(socket.AF_UNIX)
    server.bind("\\0abstract")
    return 42
""",
    "killing its parent": """
import os, signal
def answer(x):
    os.kill(PARENT, signal.SIGKILL)
    return 42
""",
    "killing by another call": """
import ctypes
def answer(x):
    libc = ctypes.CDLL(None)
    return 42 if libc.syscall(234, PARENT, PARENT, 0) == 0 else None
""",
    "a fork bomb": """
import os
def answer(x):
    while True:
        os.fork()
""",
    "one process": """
import subprocess, sys
def answer(x):
    return subprocess.run([sys.executable, "-c", "print(42)"], capture_output=True) and 42
""",
    "a detached grandchild": """
import os, signal, time
def answer(x):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            time.sleep(1000)
        os._exit(0)
    time.sleep(1000)
""",
}


@pytest.fixture(autouse=True)
def marker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """After each test nothing is left: no process that ran in the sandbox, no folder."""
    mark = f"sandbox-{uuid.uuid4().hex}"
    monkeypatch.setitem(cages._ENVIRONMENT, "MARK", mark)
    folders = tmp_path / "folders"
    folders.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folders))
    yield mark
    deadline = time.monotonic() + 5
    while left := _marked(mark):
        assert time.monotonic() < deadline, f"processes left behind: {left}"
        time.sleep(0.05)
    assert list(folders.iterdir()) == []


def _marked(mark: str) -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if mark.encode() in path.read_bytes():
                found.append(path.parent.name)
        except OSError:
            continue
    return found


@pytest.fixture(params=[BWRAP, LANDLOCK, BARE], ids=["bubblewrap", "landlock", "bare"])
def cage(request: pytest.FixtureRequest) -> Cage:
    return _closable(request.param)


@pytest.fixture(params=[BWRAP, LANDLOCK], ids=["bubblewrap", "landlock"])
def walled(request: pytest.FixtureRequest) -> Cage:
    return _closable(request.param)


def _closable(cage: Cage) -> Cage:
    if not works(cage):
        pytest.skip(f"{cage} cannot be closed on this system")
    return cage


def _run(program: str, cage: Cage) -> Outcome:
    started = time.monotonic()
    outcome = execute(TASK, program, cage=cage, limits=QUICK)
    assert time.monotonic() - started < QUICK.wall_seconds + ALLOWANCE
    return outcome


def test_the_right_answer_passes(cage: Cage) -> None:
    assert _run(TASK.gold_action, cage).ok


def test_the_wrong_answer_fails(cage: Cage) -> None:
    assert _run("def answer(x):\n    return 41", cage).error_family == "test_failure"


@pytest.mark.parametrize("name", IN_ANY_CAGE)
def test_contained_anywhere(name: str, cage: Cage) -> None:
    outcome = _run(IN_ANY_CAGE[name], cage)
    assert not outcome.ok
    assert len(outcome.observation) < 8000
    outcome.observation.encode("utf-8")


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "secret"
    path.write_text("a secret", encoding="utf-8")
    path.chmod(0o600)
    return path


@pytest.fixture
def header(secret: Path) -> Iterator[str]:
    """What the programs that look for something outside are told of it."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        known = {
            "HOME": str(Path.home()),
            "PYTHON": str(Path(sys.executable).resolve()),
            "SECRET": str(secret),
            "PARENT": os.getpid(),
            "PORT": server.getsockname()[1],
        }
        yield "".join(f"{key} = {value!r}\n" for key, value in known.items())


@pytest.mark.parametrize("name", BEHIND_WALLS)
def test_contained_behind_walls(name: str, walled: Cage, secret: Path, header: str) -> None:
    assert not _run(header + BEHIND_WALLS[name], walled).ok
    assert secret.read_text(encoding="utf-8") == "a secret"
    assert secret.stat().st_mode & 0o777 == 0o600
    assert not secret.with_suffix(".new").exists()


@pytest.mark.parametrize(
    "name",
    [
        "reading a file of the user",
        "writing outside",
        "creating outside",
        "deleting outside",
        "changing modes outside",
        "the parent's environment",
        "a socket",
        "a socket on a path",
        "one process",
    ],
)
def test_the_same_programs_succeed_outside(name: str, header: str) -> None:
    namespace: dict[str, Any] = {}
    exec(header + BEHIND_WALLS[name], namespace)
    assert namespace["answer"](1) == 42


def test_the_environment_is_not_inherited(cage: Cage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("API_TOKEN", "hidden")
    program = "import os\ndef answer(x):\n    return 42 if 'API_TOKEN' in os.environ else None"
    assert not _run(program, cage).ok


def test_there_is_no_input(cage: Cage) -> None:
    assert _run("def answer(x):\n    return input()", cage).observation.endswith(
        "EOFError: EOF when reading a line"
    )


def test_the_folder_starts_empty(cage: Cage) -> None:
    assert _run("import os\ndef answer(x):\n    return 42 + len(os.listdir('.'))", cage).ok


def test_one_program_does_not_see_another(cage: Cage) -> None:
    leave = "import os\ndef answer(x):\n    os.mkdir('left')\n    return 42"
    find = "import os\ndef answer(x):\n    return 42 if os.path.exists('left') else None"
    assert _run(leave, cage).ok
    assert not _run(find, cage).ok


def test_hashes_do_not_vary(cage: Cage) -> None:
    texts = {
        _run("def answer(x):\n    raise KeyError(hash('a'), {'b', 'c', 'd'})", cage).observation
        for _ in range(3)
    }
    assert len(texts) == 1


def test_time_limits_are_failures(cage: Cage) -> None:
    for program in ("endless loop", "endless sleep"):
        assert _run(IN_ANY_CAGE[program], cage).error_family == "timeout"


def test_a_sandbox_that_does_not_start_is_no_failure_of_the_program(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Cage, "command", lambda self, fd: ["false"])
    with pytest.raises(RuntimeError, match="did not start"):
        _run(TASK.gold_action, BARE)
    assert not works(BARE)


def test_a_cage_that_does_not_close_runs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = {"landlock": None, "seccomp": b"\0" * 8, "root": False}
    monkeypatch.setattr(Cage, "confinement", lambda self: refused)
    with pytest.raises(RuntimeError, match="sandbox failed: OSError"):
        _run(TASK.gold_action, BARE)


def test_a_background_process_dies_with_its_program(tmp_path: Path) -> None:
    """In the weakest cage too, as far as it lets a program start one."""
    leave = (
        "import os, time\nif os.fork() == 0:\n    time.sleep(1000)\ndef answer(x):\n    return 42"
    )
    outcome = _run(leave, _closable(BARE))  # that nothing is left is checked after every test
    assert outcome.ok or outcome.error_family in ("runtime_error", "timeout")


def test_what_the_probe_reports(walled: Cage) -> None:
    report = protections(walled)
    assert report["walls"] == walled.walls
    assert len(report["allows"]) >= 6
    assert not any(report["allows"].values())
    assert {"RLIMIT_CPU", "RLIMIT_AS", "RLIMIT_NPROC"} <= set(report["limits"])


def test_the_strongest_cage_is_taken() -> None:
    assert best_cage() == next(cage for cage in CAGES if works(cage))
