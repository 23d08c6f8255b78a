"""Mutations: one edit each that turns a correct program into one that may fail.

A program is read with LibCST, which knows where each token stands; an edit replaces the
text between two positions, so that everything else, formatting and comments included, stays
as it was. Nothing inside strings (f-strings too), comments or annotations is touched.

An operator is one function `(node, site) -> edits`, registered under its name, called for
every node.
"""

from __future__ import annotations

import builtins
import keyword
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import libcst as cst
from libcst.metadata import (
    CodeRange,
    ExpressionContext,
    ExpressionContextProvider,
    MetadataWrapper,
    ParentNodeProvider,
    PositionProvider,
)


class Mutant(NamedTuple):
    """A program one edit away from a correct one; `site` counts an operator's edits in it."""

    operator: str
    site: int
    program: str
    line: int


class Edit(NamedTuple):
    """Put `replacement` for the text from offset `start` to offset `end`."""

    start: int
    end: int
    replacement: str


@dataclass(frozen=True)
class Site:
    """What an operator may ask about the program that it edits."""

    text: str
    bound: frozenset[str]
    positions: dict[cst.CSTNode, CodeRange]
    parents: dict[cst.CSTNode, cst.CSTNode]
    contexts: Mapping[cst.CSTNode, ExpressionContext | None]
    line_starts: tuple[int, ...]

    def span(self, node: cst.CSTNode) -> tuple[int, int]:
        """The offsets at which a node's own text starts and ends."""
        place = self.positions[node]
        return (
            self.line_starts[place.start.line - 1] + place.start.column,
            self.line_starts[place.end.line - 1] + place.end.column,
        )

    def code(self, node: cst.CSTNode) -> str:
        start, end = self.span(node)
        return self.text[start:end]

    def replace(self, node: cst.CSTNode, replacement: str) -> Edit:
        return Edit(*self.span(node), replacement)

    def drop_word(self, word: str, start: int) -> Edit:
        """Leave out a keyword and the blanks after it."""
        end = start + len(word)
        while self.text[end] in " \t":
            end += 1
        return Edit(start, end, "")

    def is_read(self, node: cst.CSTNode) -> bool:
        """Whether a name or subscript is read here, not assigned or deleted."""
        return self.contexts.get(node) is ExpressionContext.LOAD


Finder = Callable[[cst.CSTNode, Site], Iterator[Edit]]

OPERATORS: dict[str, Finder] = {}


def operator(find: Finder) -> Finder:
    """Register the decorated function under its name."""
    OPERATORS[find.__name__] = find
    return find


def mutants(program: str) -> list[Mutant]:
    """Every mutant of a program, by operator and position, none twice.

    Left out are mutants of which the program is a prefix, or the other way round: their
    probabilities could not be compared.

    Raises:
        ValueError: LibCST cannot read the program.
    """
    try:
        wrapper = MetadataWrapper(cst.parse_module(program), unsafe_skip_copy=True)
    except cst.ParserSyntaxError as error:
        raise ValueError(f"LibCST cannot read the program: {error.message}") from error
    collector = _Collector(program, wrapper)
    seen = {program}
    found = []
    for name, edits in collector.edits.items():
        for number, edit in enumerate(sorted(edits)):
            mutated = program[: edit.start] + edit.replacement + program[edit.end :]
            if mutated in seen or program.startswith(mutated) or mutated.startswith(program):
                continue
            seen.add(mutated)
            found.append(Mutant(name, number, mutated, program.count("\n", 0, edit.start) + 1))
    return found


class _Collector(cst.CSTVisitor):
    """Offers every node outside strings and annotations to every operator."""

    def __init__(self, program: str, wrapper: MetadataWrapper) -> None:
        super().__init__()
        starts = [0]
        for line in program.split("\n"):
            starts.append(starts[-1] + len(line) + 1)
        contexts = dict(wrapper.resolve(ExpressionContextProvider))
        written = (ExpressionContext.STORE, ExpressionContext.DEL)
        names = {
            node.value
            for node, context in contexts.items()
            if isinstance(node, cst.Name) and context in written
        }
        names |= {node.name.value for node in _nodes(wrapper.module, cst.Param)}
        self.site = Site(
            program,
            frozenset(names),
            dict(wrapper.resolve(PositionProvider)),
            dict(wrapper.resolve(ParentNodeProvider)),
            contexts,
            tuple(starts),
        )
        self.edits: dict[str, list[Edit]] = {name: [] for name in OPERATORS}
        wrapper.module.visit(self)

    def on_visit(self, node: cst.CSTNode) -> bool:
        if isinstance(node, cst.FormattedString | cst.Annotation):
            return False
        for name, find in OPERATORS.items():
            self.edits[name].extend(find(node, self.site))
        return True


def _nodes(module: cst.Module, kind: type[cst.Param]) -> Iterator[cst.Param]:
    pending: list[cst.CSTNode] = [module]
    while pending:
        node = pending.pop()
        if isinstance(node, kind):
            yield node
        pending.extend(node.children)


def _swap(node: cst.CSTNode, site: Site, table: dict[type[cst.CSTNode], str]) -> Iterator[Edit]:
    if type(node) in table:
        yield site.replace(node, table[type(node)])


@operator
def flip_comparison(node: cst.CSTNode, site: Site) -> Iterator[Edit]:
    """`<` becomes `<=`, and the other way round."""
    yield from _swap(node, site, {cst.LessThan: "<=", cst.LessThanEqual: "<"})


@operator
def flip_comparison_greater(node: cst.CSTNode, site: Site) -> Iterator[Edit]:
    """`>` becomes `>=`, and the other way round."""
    yield from _swap(node, site, {cst.GreaterThan: ">=", cst.GreaterThanEqual: ">"})


@operator
def off_by_one(node: cst.CSTNode, site: Site) -> Iterator[Edit]:
    """A range ends one step early, or one step late where its end was written as `n - 1`."""
    if not (isinstance(node, cst.Call) and site.code(node.func) == "range"):
        return
    arguments = [argument for argument in node.args if not argument.star]
    if not 1 <= len(arguments) == len(node.args) <= 3:
        return
    end = arguments[min(1, len(arguments) - 1)].value
    down = len(arguments) == 3 and site.code(arguments[2].value).startswith("-")
    yield site.replace(end, _shifted(end, site, +1 if down else -1))


@operator
def index_shift(node: cst.CSTNode, site: Site) -> Iterator[Edit]:
    """An index is one off: `x[0]` becomes `x[1]`, `x[-1]` `x[-2]`, `x[i]` `x[i + 1]`.

    An index that was one off an expression loses that: `x[i - 1]` becomes `x[i]`.
    """
    if not (isinstance(node, cst.Subscript) and len(node.slice) == 1):
        return
    element = node.slice[0].slice
    if isinstance(element, cst.Index) and not isinstance(
        element.value, cst.SimpleString | cst.ConcatenatedString | cst.FormattedString | cst.Tuple
    ):
        inward = -1 if site.code(element.value).startswith("-") else +1
        yield site.replace(element.value, _shifted(element.value, site, inward))


@operator
def drop_reverse(node: cst.CSTNode, site: Site) -> Iterator[Edit]:
    """`[::-1]`, `reversed(...)`, `reverse=True` or `.reverse()` is left out."""
    if isinstance(node, cst.Subscript):
        end = site.span(node)[1]
        opening = site.span(node.value)[1]
        if "".join(site.text[opening:end].split()) == "[::-1]" and not node.lpar:
            yield Edit(opening, end, "")
    elif isinstance(node, cst.Call):
        name = site.code(node.func)
        if name == "reversed" and len(node.args) == 1:
            yield site.replace(node, site.code(node.args[0]))
        elif isinstance(node.func, cst.Attribute) and node.func.attr.value == "reverse":
            yield site.replace(node, site.code(node.func.value))
        for number, argument in enumerate(node.args):
            named = argument.keyword is not None and argument.keyword.value == "reverse"
            if named and site.code(argument.value) == "True":
                start, end = site.span(argument)
                if number > 0:
                    start = site.span(node.args[number - 1])[1]
                elif len(node.args) > 1:
                    end = site.span(node.args[1])[0]
                yield Edit(start, end, "")


@operator
def flip_bool(node: cst.CSTNode, site: Site) -> Iterator[Edit]:
    """`True` becomes `False`, and the other way round."""
    if isinstance(node, cst.Name) and node.value in ("True", "False"):
        yield site.replace(node, "False" if node.value == "True" else "True")


@operator
def drop_negation(node: cst.CSTNode, site: Site) -> Iterator[Edit]:
    """`not x` becomes `x`, `not in` `in`, `is not` `is`, and `!=` `==`."""
    if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Not):
        yield site.drop_word("not", site.span(node.operator)[0])
    yield from _swap(node, site, {cst.NotIn: "in", cst.IsNot: "is", cst.NotEqual: "=="})


@operator
def drop_return(node: cst.CSTNode, site: Site) -> Iterator[Edit]:
    """A `return` is lost: the keyword, or a whole statement that was alone in its block."""
    if not (isinstance(node, cst.Return) and node.value is not None):
        return
    start, end = site.span(node)
    yield site.drop_word("return", start)
    line = site.parents[node]
    block = site.parents[line]
    if isinstance(block, cst.IndentedBlock) and len(block.body) == 1:
        first = site.text.rfind("\n", 0, start) + 1
        last = site.text.find("\n", end) + 1
        if last > 0 and not site.text[first:start].strip():
            yield Edit(first, last, "")


@operator
def undefined_name(node: cst.CSTNode, site: Site) -> Iterator[Edit]:
    """A variable is misspelt where it is read, as a name that nothing defines."""
    if not (isinstance(node, cst.Name) and node.value in site.bound and site.is_read(node)):
        return
    parent = site.parents[node]
    if not (isinstance(parent, cst.Arg) and parent.keyword is node):
        yield site.replace(node, misspelt(node.value, site.bound))


@operator
def flip_arith(node: cst.CSTNode, site: Site) -> Iterator[Edit]:
    """An arithmetic operator becomes another: `+` and `-` each other, `*` `+`, `/` `*`, ..."""
    if isinstance(node, cst.BinaryOperation):
        formatting = isinstance(node.left, cst.SimpleString) and isinstance(
            node.operator, cst.Modulo
        )
        if not formatting:
            yield from _swap(node.operator, site, _ARITHMETIC)
    elif isinstance(node, cst.AugAssign):
        yield from _swap(node.operator, site, _AUGMENTED)


_ARITHMETIC: dict[type[cst.CSTNode], str] = {
    cst.Add: "-",
    cst.Subtract: "+",
    cst.Multiply: "+",
    cst.Divide: "*",
    cst.FloorDivide: "*",
    cst.Modulo: "//",
    cst.Power: "*",
}

_AUGMENTED: dict[type[cst.CSTNode], str] = {
    cst.AddAssign: "-=",
    cst.SubtractAssign: "+=",
    cst.MultiplyAssign: "+=",
    cst.DivideAssign: "*=",
    cst.FloorDivideAssign: "*=",
    cst.ModuloAssign: "//=",
}


def _shifted(node: cst.BaseExpression, site: Site, by: int) -> str:
    """The expression moved by one: a number counted on, a trailing `+ 1` or `- 1` undone."""
    code = site.code(node)
    try:
        return str(int(code) + by)
    except ValueError:
        pass
    if (
        isinstance(node, cst.BinaryOperation)
        and isinstance(node.operator, cst.Add | cst.Subtract)
        and site.code(node.right) == "1"
        and not node.lpar
    ):
        return site.code(node.left)
    simple = isinstance(
        node, cst.Name | cst.Call | cst.Attribute | cst.Subscript | cst.BinaryOperation
    )
    wrapped = code if simple or node.lpar else f"({code})"
    return f"{wrapped} {'+' if by > 0 else '-'} 1"


def misspelt(name: str, bound: frozenset[str]) -> str:
    """The name with its last two letters swapped, or else its last letter doubled."""
    swapped = name[:-2] + name[-1] + name[-2] if len(name) > 3 else name
    for candidate in (swapped, name + name[-1], name + name[-1] * 2, f"{name}_"):
        taken = candidate in bound or hasattr(builtins, candidate) or keyword.iskeyword(candidate)
        if candidate != name and not taken:
            return candidate
    raise ValueError(f"no misspelling of {name} is free")
