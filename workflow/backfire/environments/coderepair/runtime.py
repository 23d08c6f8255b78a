"""Run a program against the tests of its task, in the sandbox, and say what came of it."""

from __future__ import annotations

import ast
import os
from collections import Counter
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from backfire.environments.coderepair.assertions import decode
from backfire.environments.coderepair.observations import (
    SOLUTION,
    TESTS,
    Frame,
    ProgramError,
    lines_of,
    render_error,
    render_success,
    without_comprehensions,
)
from backfire.environments.coderepair.sandbox.cage import Cage
from backfire.environments.coderepair.sandbox.child import MAX_FRAMES, MAX_MESSAGE
from backfire.environments.coderepair.sandbox.probe import best_cage
from backfire.environments.coderepair.sandbox.run import DEFAULT, Ending, Job, Limits, run
from backfire.environments.coderepair.tasks import Task, load, syntax_tree

MAX_CHARS = 50_000
"""A longer program is refused unread."""


@dataclass(frozen=True)
class Outcome:
    """What came of a program, and what its author is shown."""

    observation: str
    error: ProgramError | None = None

    @property
    def ok(self) -> bool:
        return self.error is None

    @property
    def error_family(self) -> str | None:
        return None if self.error is None else self.error.family


def execute(
    task: Task, action: str, *, cage: Cage | None = None, limits: Limits = DEFAULT
) -> Outcome:
    """Run one program, whatever text it is, against the tests of its task.

    It passes if every assertion holds of the values that its calls gave and it then ends by
    itself within its limits; nothing that it prints, raises or exits with counts as a pass.
    """
    trial = _Trial(task, action)
    if len(action) > MAX_CHARS:
        trial.fail("syntax_error", "SyntaxError", "the program is too long")
    else:
        job = Job(action, [test.calls for test in task.tests], task.setup)
        trial.end(run(job, trial.hear, best_cage() if cage is None else cage, limits), limits)
    if trial.error is not None:
        return Outcome(render_error(trial.error), trial.error)
    return Outcome(render_success(len(task.tests)))


def execute_all(programs: Iterable[tuple[Task, str]]) -> list[Outcome]:
    """The outcomes of many programs, in order, as many at a time as there are cores."""
    best_cage()  # once, rather than in every thread
    with ThreadPoolExecutor(_cores()) as executor:
        return list(executor.map(lambda program: execute(*program), programs))


def sound_tasks(settings: Mapping[str, Any]) -> tuple[list[Task], Counter[str]]:
    """The tasks of the configured source whose reference passes its own tests.

    Returns:
        The tasks in their source's order, and how many were left out, by reason.

    Raises:
        UserError: the problems cannot be read.
    """
    tasks, notes = load(settings)
    outcomes = execute_all((task, task.gold_action) for task in tasks)
    sound = [task for task, outcome in zip(tasks, outcomes, strict=True) if outcome.ok]
    notes["problems whose reference fails its own tests"] += len(tasks) - len(sound)
    return sound, notes


def canonical(action: str) -> str:
    """One spelling for programs that mean the same: comments, quotes and layout aside.

    Text that is no program stands for itself, without its outer and repeated spaces.
    """
    tree = syntax_tree(action) if len(action) <= MAX_CHARS else None
    return " ".join(action.split()) if tree is None else ast.unparse(tree)


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class _Trial:
    """Follows a program through its tests; `error` is what stopped it, if anything did."""

    def __init__(self, task: Task, action: str) -> None:
        self.task = task
        self.lines = {SOLUTION: lines_of(action), TESTS: [test.text for test in task.tests]}
        self.error: ProgramError | None = None
        self.passed = 0

    def hear(self, message: dict[str, Any]) -> bool:
        """Judge one message of the program; more is wanted while it passes."""
        match message:
            case {"values": [*values]} if self.passed < len(self.task.tests):
                if self._holds(values):
                    self.passed += 1
                else:
                    self._fail_test()
            case {"error": dict(error)}:
                self._fail_with(error)
            case _:
                raise ValueError("a message that no program sends")
        return self.error is None

    def end(self, ending: Ending, limits: Limits) -> None:
        """Judge how the program ended, where nothing it sent had failed."""
        if self.error is not None:
            return
        if ending.how == "timeout":
            within = f"the program did not finish within {limits.cpu_seconds} s"
            self.fail("timeout", "TimeoutError", within)
        elif ending.how == "crashed":
            self.fail("runtime_error", "SystemError", f"the interpreter died ({ending.detail})")
        elif self.passed < len(self.task.tests):
            self.fail("runtime_error", "SystemExit", "the program ended before its tests did")

    def fail(self, family: str, kind: str, message: str, frames: tuple[Frame, ...] = ()) -> None:
        tests = len(self.task.tests)
        loaded = family != "syntax_error" and self.passed < tests
        number = self.passed + 1 if loaded else None
        submitted = frozenset(self.lines[SOLUTION])
        self.error = ProgramError(family, kind, message, frames, number, tests, submitted)

    def _holds(self, values: list[Any]) -> bool:
        test = self.task.tests[self.passed]
        try:
            decoded = [decode(value) for value in values]
        except (ValueError, TypeError, RecursionError):
            return False  # no plain data, so nothing that a test expects
        return len(decoded) == len(test.calls) and test.holds(decoded)

    def _fail_test(self) -> None:
        line = self.passed + 1
        frame = Frame(TESTS, line, "<module>", self.task.tests[self.passed].text)
        self.fail("test_failure", "AssertionError", "", (frame,))

    def _fail_with(self, error: dict[str, Any]) -> None:
        kind, message = (_clean(error.get(key)) for key in ("type", "message"))
        frames: list[Frame] = []
        match error:
            case {"phase": "compile", "syntax_line": int(line)}:
                frames = [self._frame(SOLUTION, line, "")]
            case {"frames": [*sent]}:
                for entry in sent[:MAX_FRAMES]:
                    match entry:
                        case [str(file), int(line), str(function)]:
                            frames.append(self._frame(file, line, function))
        family = "syntax_error" if error.get("phase") == "compile" else "runtime_error"
        self.fail(family, kind, message, without_comprehensions(frames))

    def _frame(self, file: str, line: int, function: str) -> Frame:
        lines = self.lines.get(file, [])
        source = lines[line - 1] if 0 < line <= len(lines) else ""
        return Frame(_clean(file), line, _clean(function), source)


def _clean(text: Any) -> str:
    """Text of the program's making, fit for a file and bounded."""
    return str(text)[:MAX_MESSAGE].encode("utf-8", "replace").decode()
