"""Problems to repair: where they come from, how their code is written, what a task shows."""

from __future__ import annotations

import ast
import json
import os
import warnings
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from backfire.environments.coderepair.assertions import Assertion, AssertionUnreadable, read
from backfire.errors import UserError

_RESOURCES = Path(__file__).parents[4] / "resources"
FILES = {
    "builtin": _RESOURCES / "problems" / "builtin.json",
    "mbpp": _RESOURCES / "downloads" / "sanitized-mbpp.json",
}
"""Where the problems of each source lie; MBPP is fetched there, or named by a `path`."""

SYSTEM_PROMPT = (
    "You are a Python programmer. You write one program at a time, and it is run against the "
    "tests that come with the task. Reply with the whole corrected program and nothing else: "
    "plain Python code without explanation, tests or code fences. You then see what the "
    "interpreter printed."
)

GOAL = "{prompt}\n\nThe program should pass these tests:\n\n{tests}"


@dataclass(frozen=True)
class Task:
    """A problem as the model is given it, with its reference solution.

    Attributes:
        task_id: unique within its source of problems.
        prompt: what is to be written, in a sentence or two.
        gold_action: the reference solution.
        tests: what the program has to satisfy.
        setup: import statements that the tests need.
    """

    task_id: str
    prompt: str
    gold_action: str
    tests: tuple[Assertion, ...]
    setup: str = ""

    @property
    def system(self) -> str:
        return SYSTEM_PROMPT

    @property
    def goal(self) -> str:
        return GOAL.format(prompt=self.prompt, tests="\n".join(test.text for test in self.tests))


def problems_file(settings: Mapping[str, Any]) -> Path:
    """The file that an environment's problems are read from.

    Raises:
        UserError: `problems` names no source, or `path` is given where there is no choice.
    """
    source = settings["problems"]
    if source not in FILES:
        raise UserError(f"config: `problems` is {source!r}, {' or '.join(FILES)} is expected")
    if source == "builtin" and "path" in settings:
        raise UserError("config: `path` goes with `problems: mbpp`, not with `problems: builtin`")
    # From where the study runs: in another folder it is the same study, with nothing to do anew.
    return Path(settings.get("path", os.path.relpath(FILES[source])))


def load(settings: Mapping[str, Any]) -> tuple[list[Task], Counter[str]]:
    """The tasks of the configured source, in its order, and how many were left out and why.

    Args:
        settings: `problems` is `builtin` or `mbpp`; `path` may name the file of the latter.

    Raises:
        UserError: the file is missing or not in the form of sanitized MBPP.
    """
    source, path = settings["problems"], problems_file(settings)
    notes: Counter[str] = Counter()
    tasks: list[Task] = []
    for row in _rows(path):
        try:
            tests = tuple(map(read, row["test_list"]))
        except AssertionUnreadable:
            notes["problems whose assertions cannot be judged outside the program"] += 1
            continue
        prompt, code = " ".join(row["prompt"].split()), tidy(row["code"])
        setup = "\n".join(row.get("test_imports", []))
        tasks.append(Task(f"{source}.{row['task_id']}", prompt, code, tests, setup))
    return tasks, notes


_FORM = {"task_id": int | str, "prompt": str, "code": str, "test_list": list}


def _rows(path: Path) -> list[dict[str, Any]]:
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise UserError(
            f"{path}: cannot be read ({error.strerror}); problems are a file in the form of "
            "sanitized-mbpp.json"
        ) from error
    try:
        rows = json.loads(text)
    except ValueError as error:
        raise UserError(f"{path}: not JSON ({error}); a list of problems is expected") from error
    if not isinstance(rows, list) or not rows:
        raise UserError(f"{path}: holds {type(rows).__name__}, a list of problems is expected")
    seen: set[str] = set()
    for number, row in enumerate(rows, start=1):
        where = f"{path}: problem {number}"
        if not isinstance(row, dict):
            raise UserError(f"{where} is {type(row).__name__}, a mapping is expected")
        for key, kind in _FORM.items():
            if not isinstance(row.get(key), kind):
                found = type(row[key]).__name__ if key in row else "nothing"
                raise UserError(f"{where}: `{key}` is {found}, {_name(kind)} is expected")
        for key in ("test_list", "test_imports"):
            lines = row.get(key, [])
            if not isinstance(lines, list) or not all(isinstance(line, str) for line in lines):
                raise UserError(f"{where}: `{key}` is something other than a list of text")
        if not row["test_list"]:
            raise UserError(f"{where}: `test_list` is empty, at least one assertion is expected")
        if str(row["task_id"]) in seen:
            raise UserError(f"{where}: task_id {row['task_id']} was used before; make it unique")
        seen.add(str(row["task_id"]))
    return rows


def _name(kind: Any) -> str:
    return {str: "text", list: "a list"}.get(kind, "a number or text")


def tidy(code: str) -> str:
    """The code with plain line ends, spaces for tabs and nothing at line ends.

    Where that would change the program (a tab inside a string, say), the line ends alone
    are made plain.
    """
    plain = code.replace("\r\n", "\n").replace("\r", "\n").strip("\n")
    lines = [line.expandtabs(4).rstrip() for line in plain.split("\n")]
    tidied = "\n".join(lines).strip("\n")
    before, after = syntax_tree(plain), syntax_tree(tidied)
    if before is None or after is None or ast.dump(before) != ast.dump(after):
        return plain
    return tidied


def syntax_tree(program: str) -> ast.Module | None:
    """The program's tree, or None where it is no program, whatever text it is."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "\d" in a program's string is not our warning
        try:
            return ast.parse(program)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None
