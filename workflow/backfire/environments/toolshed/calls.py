"""Tool calls as text: one Python-style call, read with `ast` and never evaluated."""

from __future__ import annotations

import ast
import json
import re
import warnings
from dataclasses import dataclass
from typing import TypeAlias

Value: TypeAlias = "str | int | float | bool | list[Value] | None"

MAX_CHARS = 10_000
"""Longer text is refused unread, which bounds what the parser can be made to do."""

_MAX_NAME_CHARS = 100
_MAX_NUMBER = 2**63
_SURROGATE = re.compile("[\ud800-\udfff]")


class ParseError(ValueError):
    """The text is not one tool call; the message says why, in a few words."""


@dataclass(frozen=True)
class Call:
    """A tool's name with its arguments, in the order written."""

    tool: str
    named: dict[str, Value]
    positional: tuple[Value, ...] = ()

    def __str__(self) -> str:
        arguments = [*map(write_value, self.positional)]
        arguments += [f"{name}={write_value(value)}" for name, value in self.named.items()]
        return f"{self.tool}({', '.join(arguments)})"


def write_value(value: Value) -> str:
    """A value as it stands in a call: text in double quotes, the rest as Python writes it."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, list):
        return f"[{', '.join(map(write_value, value))}]"
    return repr(value)


def parse(text: str) -> Call:
    """Read one call of literals.

    Raises:
        ParseError: for any text that is not one, whatever it holds.
    """
    if len(text) > MAX_CHARS:
        raise ParseError("it is too long")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # "\d" in a model's string is not our warning
            node = ast.parse(text.strip(), mode="eval").body
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            raise ParseError("it is not a call by name")
        named: dict[str, Value] = {}
        for keyword in node.keywords:
            if keyword.arg is None or keyword.arg in named:
                raise ParseError("each argument must be named once")
            named[keyword.arg] = _literal(keyword.value)
        if max(map(len, [node.func.id, *named])) > _MAX_NAME_CHARS:
            raise ParseError("a name is too long")
        return Call(node.func.id, named, tuple(map(_literal, node.args)))
    except ParseError:
        raise
    # ast.parse: ValueError for NUL bytes, lone surrogates and huge integers, MemoryError and
    # RecursionError for deep nesting.
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        raise ParseError("its syntax is wrong") from error


def _literal(node: ast.expr) -> Value:
    match node:
        case ast.List(elts=elements) | ast.Tuple(elts=elements):
            return [_literal(element) for element in elements]
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as number)):
            return -_bounded(number)
        case ast.Constant(value=None | bool() as constant):
            return constant
        case ast.Constant(value=int() | float() as number):
            return _bounded(number)
        case ast.Constant(value=str() as text) if not _SURROGATE.search(text):
            return text
    raise ParseError("arguments must be plain text, numbers or lists")


def _bounded(number: int | float) -> int | float:
    """Refuse numbers that Python cannot print or the tools cannot compute with."""
    if not abs(number) < _MAX_NUMBER:
        raise ParseError("a number is too large")
    return number
