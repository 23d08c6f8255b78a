"""What is taken out of a model's turn: a call on one line, or a program.

A leading label ("Assistant:") and a code fence are stripped. What remains is the action,
whatever text it is; the environment says whether it is any good.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

_LABEL = r"(?:(?:assistant|action|answer|call|output|reply|response|tool call)(?:\s*:|\n)\s*)?"
_CALL = re.compile(rf"\s*{_LABEL}(?:```[a-z]*(?:\n|$)\s*|`*)", re.IGNORECASE)
_PROGRAM = re.compile(rf"\s*{_LABEL}(?=\S)", re.IGNORECASE)
_FENCED = re.compile(r"```[^\n`]*\n(.*?)(?:\n?```|$)", re.DOTALL)
_OTHER = "user|human|system|tool|observation|result"
_BEGINS = re.compile(rf"\s*(?:{_OTHER})\s*:", re.IGNORECASE)
_GOES_ON = re.compile(rf"\n\s*(?:assistant|{_OTHER})\s*:", re.IGNORECASE)


@dataclass(frozen=True)
class Reply:
    """A form of reply.

    Attributes:
        name: `call` or `program`.
        action: the action in a turn's text.
        complete: whether the text ends the turn by itself.
    """

    name: str
    action: Callable[[str], str]
    complete: Callable[[str], bool]


def writes_a_speaker(text: str) -> bool:
    """Whether a turn begins as somebody else, or goes on as a further turn under a label."""
    text = text.lstrip()
    return _BEGINS.match(text) is not None or _GOES_ON.search(text) is not None


def _line(text: str) -> tuple[str, bool]:
    """The line that the call stands on, and whether it has ended."""
    opening = _CALL.match(text)
    rest = text[opening.end() :] if opening else text
    line, newline, _ = rest.lstrip().partition("\n")
    return line.strip().rstrip("`").rstrip(), bool(newline)


def _program(text: str) -> str:
    fenced = _FENCED.search(text)
    if fenced:
        return fenced[1].rstrip()
    opening = _PROGRAM.match(text)
    label = opening.end() if opening and opening[0].strip() else 0
    return text[label:].strip("\n").rstrip()


CALL = Reply("call", lambda text: _line(text)[0], lambda text: _line(text)[1])
PROGRAM = Reply("program", _program, lambda text: False)
