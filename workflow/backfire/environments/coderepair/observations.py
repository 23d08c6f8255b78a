"""What the interpreter prints of a program, in the renderings that the conditions use.

The text is that of Python's own traceback, with a few differences that keep it the same on
every machine and version: the file names have no path, the marks under a line (`^^^^`) and
the suggestions ("Did you mean") are left out, and of an error inside the program only the
program's own frames are shown, not the test's that called it or a library's that it called.
A comprehension has no frame of its own, as from Python 3.12 on. Of several chained exceptions
the last is shown, and a very long traceback loses its middle.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Literal, NamedTuple

from backfire.environments.coderepair.sandbox.child import SOLUTION, TESTS

Style = Literal["standard", "terse", "verbose"]

FAMILIES = ("test_failure", "runtime_error", "syntax_error", "timeout")

NEUTRAL = "Received."
"""An acknowledgement without valence."""

_SHOWN_REPEATS = 3  # as the interpreter's traceback does
_SHOWN_COLUMNS = 400  # of a source line
_SHOWN_ENDS = 8  # entries at either end of a longer traceback, which bounds the text


class Frame(NamedTuple):
    """A line of a traceback: where, and the source line there without its indentation."""

    file: str
    line: int
    function: str
    source: str


@dataclass(frozen=True)
class ProgramError:
    """What went wrong with a program.

    Attributes:
        family: one of `FAMILIES`.
        type: the exception's name as a traceback writes it.
        message: its message, perhaps empty.
        frames: the traceback, outermost first; of a syntax error, where it is.
        test: the number of the test at which it happened, from 1; None before any test.
        of: how many tests there are.
        submitted: the program's lines, to tell whether the text quotes one.
    """

    family: str
    type: str
    message: str
    frames: tuple[Frame, ...]
    test: int | None
    of: int
    submitted: frozenset[str]

    @property
    def own_frames(self) -> tuple[Frame, ...]:
        """The frames in the program, or all where there are none."""
        return tuple(frame for frame in self.frames if frame.file == SOLUTION) or self.frames

    @property
    def quotes_submission(self) -> bool:
        """Whether the standard rendering repeats a whole line of the program."""
        return any(frame.source in self.submitted for frame in self.own_frames if frame.source)

    def as_dict(self) -> dict[str, Any]:
        """The error as an item stores it; `line` and `source_line` are the program's."""
        last = next((one for one in reversed(self.frames) if one.file == SOLUTION), None)
        return {
            "family": self.family,
            "type": self.type,
            "message": self.message,
            "line": last.line if last else None,
            "source_line": last.source if last else None,
            "test": self.test,
            "quotes_submission": self.quotes_submission,
        }


def lines_of(program: str) -> list[str]:
    """The lines of a program as the interpreter counts them, without their indentation."""
    return [line.strip() for line in re.split("\r\n|\r|\n", program)]


def without_comprehensions(frames: Sequence[Frame]) -> tuple[Frame, ...]:
    """The frames as Python 3.12 has them: a comprehension's line counts as its function's."""
    merged: list[Frame] = []
    for frame in frames:
        if frame.function in ("<listcomp>", "<setcomp>", "<dictcomp>") and merged:
            frame = frame._replace(function=merged.pop().function)
        merged.append(frame)
    return tuple(merged)


def render_error(error: ProgramError, style: Style = "standard") -> str:
    """An error as the interpreter prints it."""
    last = f"{error.type}: {error.message}" if error.message else error.type
    if style == "terse":
        return last
    frames = error.own_frames if style == "standard" else error.frames
    text = "\n".join([*_traceback(frames, header=error.family != "syntax_error"), last])
    if style == "standard":
        return text
    return f"{text}\n\n{_progress(error)}"


def render_echo(error: ProgramError, action: str) -> str:
    """A standard error that repeats the program."""
    return f"{render_error(error)}\n\nThe program was:\n\n{action}"


def render_success(tests: int) -> str:
    """A run that passes."""
    return f"OK: the program passed all {tests} tests."


def _traceback(frames: Sequence[Frame], header: bool) -> list[str]:
    entries: list[str] = []
    for frame, repeats in groupby(frames):
        count = len(list(repeats))
        where = f'  File "{frame.file}", line {frame.line}'
        entry = f"{where}, in {frame.function}" if header else where
        if frame.source:
            entry = f"{entry}\n    {frame.source[:_SHOWN_COLUMNS]}"
        entries += [entry] * min(count, _SHOWN_REPEATS)
        if more := max(0, count - _SHOWN_REPEATS):
            entries.append(f"  [Previous line repeated {more} more time{'s' if more > 1 else ''}]")
    if len(entries) > 2 * _SHOWN_ENDS:
        between = f"  [{len(entries) - 2 * _SHOWN_ENDS} entries left out]"
        entries = [*entries[:_SHOWN_ENDS], between, *entries[-_SHOWN_ENDS:]]
    return ["Traceback (most recent call last):", *entries] if header and frames else entries


def _progress(error: ProgramError) -> str:
    if error.test is None:
        return f"The program could not be loaded, so none of its {error.of} tests were run."
    return (
        f"The program failed test {error.test} of {error.of}. "
        "Every test has to pass, and later tests were not run."
    )


__all__ = [
    "FAMILIES",
    "NEUTRAL",
    "SOLUTION",
    "TESTS",
    "Frame",
    "ProgramError",
    "lines_of",
    "render_echo",
    "render_error",
    "render_success",
    "without_comprehensions",
]
