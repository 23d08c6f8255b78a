"""The far side of the sandbox: confine this process, run one program, send its values out.

This file is handed to a fresh interpreter as a code object, so it imports nothing of the project
and as little of the standard library as it can. Nothing that it sends is trusted: it
sends values, and whether they are the right ones is judged on the near side, from what
this process is never told.

The job, which the starting line reads from a file without a name, is a mapping:

    source    the program
    setup     import statements of the tests
    calls     for each test, the expressions whose values it asks for
    limits    [name of the limit, value] pairs for setrlimit
    landlock  readable paths, or None to leave Landlock alone
    seccomp   a compiled filter, or None to leave seccomp alone
    root      whether the process is the system's root and must cease to be

What is sent is one JSON object a line: {} once the process is confined, or {"unconfined":
why} and the program is not run; then {"values": [...]} for each test in turn, or {"error":
{...}} and no more.
"""

from __future__ import annotations

import os
import stat
import struct
import sys
from _json import encode_basestring_ascii as quote

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ctypes
    from collections.abc import Callable, Iterable
    from typing import Any

    JOB: dict[str, Any]
    WRITER: int

SOLUTION, TESTS = "solution.py", "tests.py"
MAX_DEPTH, MAX_SIZE, MAX_MESSAGE, MAX_FRAMES = 60, 200_000, 500, 3000
NOBODY = 65534


class Opaque(Exception):
    """A value that is no plain data, or too much of it."""


def encode(value: Any, depth: int, budget: list[int]) -> str:
    """A value of the built-in types as JSON, with one-key objects for what JSON lacks."""
    kind = type(value)
    budget[0] -= len(value) if kind in (str, bytes, bytearray) else 1
    if depth > MAX_DEPTH or budget[0] < 0:
        raise Opaque("too large")
    if value is None:
        return "null"
    if kind is bool:
        return "true" if value else "false"
    if kind is str:
        return str(quote(value))
    if kind is int:
        return f'{{"int":"{value:x}"}}'
    if kind is float:
        return f'{{"float":"{value.hex()}"}}'
    if kind is complex:
        return f'{{"complex":["{value.real.hex()}","{value.imag.hex()}"]}}'
    if kind is bytes or kind is bytearray:
        return f'{{"bytes":"{value.hex()}"}}'
    if kind is dict or (kind.__module__ == "collections" and issubclass(kind, dict)):
        pairs = [
            f"[{encode(key, depth + 1, budget)},{encode(entry, depth + 1, budget)}]"
            for key, entry in value.items()
        ]
        return f'{{"dict":[{",".join(pairs)}]}}'
    for known in (list, tuple, set, frozenset):
        if kind is known:
            entries = ",".join([encode(entry, depth + 1, budget) for entry in value])
            return f'{{"{known.__name__}":[{entries}]}}'
    raise Opaque(kind.__name__)


def encode_or_name(value: Any) -> str:
    """The value, or what kind of thing it is where it cannot be sent."""
    try:
        return encode(value, 0, [MAX_SIZE])
    except BaseException as reason:
        return f'{{"opaque":{quote(str(reason)[:100])}}}'


def describe(error: BaseException, phase: str) -> str:
    """An exception: its type, its message, and its frames in the two files."""
    kind = type(error)
    name = kind.__qualname__
    if kind.__module__ != "builtins":
        name = f"{kind.__module__}.{name}"
    line = "null"
    if isinstance(error, SyntaxError) and error.filename == SOLUTION:
        line = str(int(error.lineno or 0))
    try:
        message = str(error.msg if isinstance(error, SyntaxError) else error)[:MAX_MESSAGE]
    except BaseException:
        message = "<exception str() failed>"
    frames: list[str] = []
    step = error.__traceback__
    while step is not None and len(frames) < MAX_FRAMES:
        code = step.tb_frame.f_code
        if code.co_filename in (SOLUTION, TESTS):
            frames.append(f"[{quote(code.co_filename)},{step.tb_lineno},{quote(code.co_name)}]")
        step = step.tb_next
    return failure(phase, name, message, frames, line)


def failure(phase: str, name: str, message: str, frames: Iterable[str], line: str) -> str:
    return (
        f'{{"phase":"{phase}","type":{quote(name)},"message":{quote(message)},'
        f'"frames":[{",".join(frames)}],"syntax_line":{line}}}'
    )


def run(job: dict[str, Any], send: Callable[[str], None]) -> None:
    """Run the program, then each test's calls in the program's own namespace."""
    reserve = [bytearray(1 << 21)]  # room to tell of a MemoryError
    phase = "compile"
    try:
        code = compile(job["source"], SOLUTION, "exec", dont_inherit=True)
        phase = "run"
        namespace: dict[str, Any] = {"__name__": "solution", "__builtins__": __builtins__}
        exec(code, namespace)
        exec(compile(job["setup"], TESTS, "exec", dont_inherit=True), namespace)
        for line, calls in enumerate(job["calls"]):
            values = []
            for call in calls:
                # The newlines put the call on its test's line in a traceback.
                code = compile("\n" * line + call, TESTS, "eval", dont_inherit=True)
                values.append(encode_or_name(eval(code, namespace)))
            send(f'{{"values":[{",".join(values)}]}}')
    except BaseException as error:
        reserve.clear()
        try:
            told = describe(error, phase)
        except BaseException:  # a class made to resist description
            told = failure(phase, "Exception", "", (), "null")
        send(f'{{"error":{told}}}')


def set_limits(limits: Iterable[tuple[str, int]]) -> None:
    import resource

    for name, value in limits:
        resource.setrlimit(getattr(resource, name), (value, value + (name == "RLIMIT_CPU")))


def leave_root() -> None:
    """Become nobody, provided that nobody may read the standard library."""
    os.setgroups([])
    os.setegid(NOBODY)
    os.seteuid(NOBODY)
    stdlib = os.__file__.rpartition("/")[0]
    readable = os.access(stdlib, os.R_OK | os.X_OK, effective_ids=True)
    os.seteuid(0)
    os.setegid(0)
    if readable:
        os.chown(".", NOBODY, NOBODY)
        os.setgid(NOBODY)
        os.setuid(NOBODY)


def drop_capabilities(libc: ctypes.CDLL) -> None:
    """Keep no privilege, even where the process has to remain root."""
    header, none = struct.pack("Ii", 0x20080522, 0), bytes(24)
    if libc.capset(header, none):
        raise OSError("capset")


def landlock(libc: ctypes.CDLL, readable: Iterable[str]) -> None:
    """Deny every file but the readable paths and the working directory, TCP, and signals."""
    import ctypes

    def call(number: int, *arguments: int | bytes | None) -> int:
        wide = [ctypes.c_long(one) if isinstance(one, int) else one for one in arguments]
        result = int(libc.syscall(ctypes.c_long(number), *wide))
        if result < 0:
            raise OSError(ctypes.get_errno(), f"landlock: system call {number}")
        return result

    version = call(444, None, 0, 1)
    files = (1 << {1: 13, 2: 14, 3: 15, 4: 15}.get(version, 16)) - 1
    attributes = struct.pack("QQQ", files, 3, 3)
    size = 8 if version < 4 else 16 if version < 6 else 24
    ruleset = call(444, attributes, size, 0)
    _execute, write_file, read_file, read_dir, remove_dir, remove_file = (1 << n for n in range(6))
    make_dir, make_file = 1 << 7, 1 << 8
    read = read_file | read_dir
    own = read | write_file | remove_dir | remove_file | make_dir | make_file
    for path in [*readable, "."]:
        try:
            handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            continue  # not on this system, so nothing to allow
        allowed = own if path == "." else read
        if not stat.S_ISDIR(os.fstat(handle).st_mode):
            allowed &= read_file | write_file
        call(445, ruleset, 1, struct.pack("=Qi", allowed, handle), 0)
        os.close(handle)
    call(446, ruleset, 0)
    os.close(ruleset)


def seccomp(libc: ctypes.CDLL, program: bytes) -> None:
    """Install a compiled filter."""
    import ctypes

    class Program(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_char_p)]

    filtered = Program(len(program) // 8, program)
    if libc.prctl(22, 2, ctypes.byref(filtered), 0, 0):
        raise OSError(ctypes.get_errno(), "seccomp")


def confine(job: dict[str, Any]) -> None:
    """Give up what the program has no need of. Whatever cannot be given up raises."""
    if job["root"]:
        leave_root()
    if job["landlock"] is not None or job["seccomp"] is not None:
        import ctypes

        libc = ctypes.CDLL(None, use_errno=True)
        libc.prctl(1, 9, 0, 0, 0)  # die with the parent
        libc.prctl(38, 1, 0, 0, 0)  # no new privileges
        drop_capabilities(libc)
        if job["landlock"] is not None:
            landlock(libc, job["landlock"])
    set_limits(job["limits"])
    if job["seccomp"] is not None:
        seccomp(libc, job["seccomp"])


def main(job: dict[str, Any], writer: int) -> None:
    sys.argv[:] = [SOLUTION]
    write = os.write

    def send(line: str) -> None:
        data = (line + "\n").encode("ascii")
        while data:
            data = data[write(writer, data) :]

    try:
        confine(job)
    except BaseException as error:
        send(f'{{"unconfined":{quote(f"{type(error).__name__}: {error}")}}}')
        os._exit(1)
    send("{}")
    run(job, send)
    os._exit(0)


if __name__ == "__main__":
    main(JOB, WRITER)  # noqa: F821 - the starting line has put them here
