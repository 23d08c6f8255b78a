"""Reading an assertion apart, so that what the program computes is judged where it cannot reach.

An assertion such as `assert set(common(a, b)) == {1, 2}` is split into the calls of the
program (`common(a, b)`), which are evaluated beside it in the sandbox, and the rest, which
is evaluated here from the values that came back. The program never sees what is expected of
it, and no object of its making takes part in a comparison: values arrive as plain data.

The rest may hold literals, comparisons, `not`, `and`, `or`, and the functions in `KNOWN`; it
is walked, never compiled or executed.
"""

from __future__ import annotations

import ast
import builtins
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

KNOWN: Mapping[str, Callable[..., Any]] = {
    "abs": abs,
    "dict": dict,
    "frozenset": frozenset,
    "len": len,
    "list": list,
    "math.isclose": math.isclose,
    "round": round,
    "set": set,
    "sorted": sorted,
    "tuple": tuple,
}
"""The functions that are evaluated here. A call by another plain name is one of the program's."""

_COMPARE: Mapping[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
    ast.In: lambda left, right: left in right,
    ast.NotIn: lambda left, right: left not in right,
}


class AssertionUnreadable(ValueError):
    """The text is no assertion of the kind that can be judged here."""


@dataclass(frozen=True)
class Assertion:
    """One test of a problem.

    Attributes:
        text: the statement, on one line.
        calls: the expressions that the program has to evaluate, as text.
    """

    text: str
    calls: tuple[str, ...]
    condition: ast.expr

    def holds(self, values: Sequence[Any]) -> bool:
        """Whether the assertion holds where its calls gave these values, as `decode` made them.

        A comparison that the values do not allow (an order between text and numbers, say)
        does not hold.
        """
        try:
            return bool(_evaluate(self.condition, dict(zip(self.calls, values, strict=True))))
        except (TypeError, ValueError, ArithmeticError, RecursionError):
            return False


def read(text: str) -> Assertion:
    """Split an assertion.

    Raises:
        AssertionUnreadable: it is not one `assert` of an expression as described above.
    """
    text = text.strip()
    try:
        statements = ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise AssertionUnreadable(f"not Python: {error}") from error
    if len(statements) != 1 or not isinstance(statements[0], ast.Assert) or "\n" in text:
        raise AssertionUnreadable("not one assert statement on one line")
    condition = statements[0].test
    calls: dict[str, None] = {}
    _collect(condition, calls)
    if not calls:
        raise AssertionUnreadable("it calls nothing of the program")
    return Assertion(text, tuple(calls), condition)


def _function(node: ast.expr) -> Callable[..., Any] | None:
    return KNOWN.get(ast.unparse(node.func)) if isinstance(node, ast.Call) else None


def _parts(node: ast.expr) -> list[ast.expr]:
    """The operands of an expression that is evaluated here.

    Raises:
        AssertionUnreadable: it is of no such kind.
    """
    match node:
        case ast.Constant():
            return []
        case ast.UnaryOp(op=ast.Not() | ast.USub() | ast.UAdd()):
            return [node.operand]
        case ast.BoolOp():
            return node.values
        case ast.Compare():
            return [node.left, *node.comparators]
        case ast.List() | ast.Tuple() | ast.Set():
            return node.elts
        case ast.Dict() if None not in node.keys:
            return [*(key for key in node.keys if key is not None), *node.values]
        case ast.BinOp(op=ast.Add() | ast.Sub()):  # complex numbers are sums
            return [node.left, node.right]
        case ast.Call() if _function(node) and all(keyword.arg for keyword in node.keywords):
            return [*node.args, *(keyword.value for keyword in node.keywords)]
    raise AssertionUnreadable(f"{ast.unparse(node)} cannot be judged")


def _collect(node: ast.expr, calls: dict[str, None]) -> None:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not _function(node):
        if hasattr(builtins, node.func.id):
            raise AssertionUnreadable(f"{node.func.id} cannot be judged")
        calls[ast.unparse(node)] = None
        return
    for part in _parts(node):
        _collect(part, calls)


def _evaluate(node: ast.expr, values: Mapping[str, Any]) -> Any:
    if isinstance(node, ast.Constant):
        return node.value
    function = _function(node)
    if isinstance(node, ast.Call) and function is None:
        return values[ast.unparse(node)]
    parts = [_evaluate(part, values) for part in _parts(node)]
    match node:
        case ast.UnaryOp(op=ast.Not()):
            return not parts[0]
        case ast.UnaryOp(op=ast.USub()):
            return -parts[0]
        case ast.UnaryOp():
            return +parts[0]
        case ast.BoolOp(op=ast.And()):
            return all(parts)
        case ast.BoolOp():
            return any(parts)
        case ast.Compare():
            tests = zip(node.ops, parts, parts[1:], strict=False)
            return all(_COMPARE[type(test)](left, right) for test, left, right in tests)
        case ast.List():
            return parts
        case ast.Tuple():
            return tuple(parts)
        case ast.Set():
            return set(parts)
        case ast.Dict():
            half = len(parts) // 2
            return dict(zip(parts[:half], parts[half:], strict=True))
        case ast.BinOp(op=ast.Add()):
            return parts[0] + parts[1]
        case ast.BinOp():
            return parts[0] - parts[1]
        case ast.Call() if function is not None:
            named = {str(keyword.arg): keyword.value for keyword in node.keywords}
            count = len(node.args)
            return function(*parts[:count], **dict(zip(named, parts[count:], strict=True)))
    raise AssertionError(f"unreachable: {ast.dump(node)}")


def decode(sent: Any) -> Any:
    """A value that the far side of the sandbox encoded.

    Raises:
        ValueError, TypeError, RecursionError: it is not the encoding of plain data.
    """
    if sent is None or isinstance(sent, bool | str):
        return sent
    if not isinstance(sent, dict) or len(sent) != 1:
        raise ValueError("not an encoded value")
    [(kind, content)] = sent.items()
    match kind:
        case "int":
            return int(content, 16)
        case "float":
            return float.fromhex(content)
        case "complex":
            real, imaginary = content
            return complex(float.fromhex(real), float.fromhex(imaginary))
        case "bytes":
            return bytes.fromhex(content)
        case "list":
            return [decode(entry) for entry in content]
        case "tuple":
            return tuple(decode(entry) for entry in content)
        case "set":
            return {decode(entry) for entry in content}
        case "frozenset":
            return frozenset(decode(entry) for entry in content)
        case "dict":
            return {decode(key): decode(entry) for key, entry in content}
    raise ValueError(f"a value of kind {kind}")
