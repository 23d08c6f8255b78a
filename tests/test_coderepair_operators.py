"""The mutation operators: each does what its name says, once, and nowhere else."""

from __future__ import annotations

import ast
import difflib

import pytest

from backfire.environments.coderepair.operators import OPERATORS, misspelt, mutants
from backfire.environments.coderepair.tasks import Task, load

BUILTIN = load({"problems": "builtin"})[0]


def by(operator: str, program: str) -> list[str]:
    return [one.program for one in mutants(program) if one.operator == operator]


def edits(operator: str, line: str) -> list[str]:
    """The ways in which an operator changes a line inside a function."""
    head = "def f(x, y, n, items):\n    "
    return [one.removeprefix(head) for one in by(operator, f"{head}{line}\n    pass")]


@pytest.mark.parametrize(
    ("operator", "line", "changed"),
    [
        ("flip_comparison", "x < y", ["x <= y"]),
        ("flip_comparison", "x <= y", ["x < y"]),
        ("flip_comparison", "0 <= x < y", ["0 < x < y", "0 <= x <= y"]),
        ("flip_comparison", "x << y > 3", []),
        ("flip_comparison_greater", "x > y", ["x >= y"]),
        ("flip_comparison_greater", "x>=y", ["x>y"]),
        ("flip_comparison_greater", "x < y", []),
        ("off_by_one", "range(n)", ["range(n - 1)"]),
        ("off_by_one", "range(7)", ["range(6)"]),
        ("off_by_one", "range(1, n + 1)", ["range(1, n)"]),
        ("off_by_one", "range(n-1)", ["range(n)"]),
        ("off_by_one", "range(len(x), 3)", ["range(len(x), 2)"]),
        ("off_by_one", "range(n, -1, -1)", ["range(n, 0, -1)"]),
        ("off_by_one", "range(n, y, -1)", ["range(n, y + 1, -1)"]),
        ("off_by_one", "range(0, n, 2)", ["range(0, n - 1, 2)"]),
        ("off_by_one", "range(x or y)", ["range((x or y) - 1)"]),
        ("off_by_one", "range(*x)", []),
        ("off_by_one", "arrange(n)", []),
        ("index_shift", "x[0]", ["x[1]"]),
        ("index_shift", "x[-1]", ["x[-2]"]),
        ("index_shift", "x[n]", ["x[n + 1]"]),
        ("index_shift", "x[n - 1]", ["x[n]"]),
        ("index_shift", "x[n][0] = y", ["x[n + 1][0] = y", "x[n][1] = y"]),
        ("index_shift", "x[1:n]", []),
        ("index_shift", "x['a']", []),
        ("index_shift", "x[n, 1]", []),
        ("index_shift", "z: list[int] = x", []),
        ("drop_reverse", "x[::-1]", ["x"]),
        ("drop_reverse", "x[n:][:: -1]", ["x[n:]"]),
        ("drop_reverse", "x[::2]", []),
        ("drop_reverse", "list(reversed(x))", ["list(x)"]),
        ("drop_reverse", "max(reversed((x, y)))", ["max((x, y))"]),
        ("drop_reverse", "sorted(x, reverse=True)", ["sorted(x)"]),
        ("drop_reverse", "sorted(x, reverse = True, key=len)", ["sorted(x, key=len)"]),
        ("drop_reverse", "x.sort(reverse=True)", ["x.sort()"]),
        ("drop_reverse", "x.sort(reverse=True, key=len)", ["x.sort(key=len)"]),
        ("drop_reverse", "sorted(x, reverse=False)", []),
        ("drop_reverse", "x.reverse()", ["x"]),
        ("flip_bool", "z = True", ["z = False"]),
        ("flip_bool", "f(x, y=False)", ["f(x, y=True)"]),
        ("drop_negation", "not x", ["x"]),
        ("drop_negation", "not(x)", ["(x)"]),
        ("drop_negation", "not ( (x) or y)", ["( (x) or y)"]),
        ("drop_negation", "x not in y", ["x in y"]),
        ("drop_negation", "x is not None", ["x is None"]),
        ("drop_negation", "x != y", ["x == y"]),
        ("drop_negation", "-x", []),
        ("drop_return", "return x, y", ["x, y"]),
        ("drop_return", "return(x)", ["(x)"]),
        ("drop_return", "return ( x )", ["( x )"]),
        ("drop_return", "return", []),
        ("undefined_name", "z = x", ["z = xx"]),
        ("undefined_name", "len(items)", ["len(itesm)"]),
        ("undefined_name", "x.items", ["xx.items"]),
        ("undefined_name", "f(n=y)", ["ff(n=y)", "f(n=yy)"]),
        ("undefined_name", "print(len)", []),
        ("flip_arith", "x + y", ["x - y"]),
        ("flip_arith", "x - y", ["x + y"]),
        ("flip_arith", "x * y", ["x + y"]),
        ("flip_arith", "x / y", ["x * y"]),
        ("flip_arith", "x // y", ["x * y"]),
        ("flip_arith", "x % y", ["x // y"]),
        ("flip_arith", "x ** y", ["x * y"]),
        ("flip_arith", "x += 1", ["x -= 1"]),
        ("flip_arith", "x //= 2", ["x *= 2"]),
        ("flip_arith", "'%d' % x", []),
        ("flip_arith", "f(*x, **y)", []),
        ("flip_arith", "x & y", []),
    ],
)
def test_an_operator(operator: str, line: str, changed: list[str]) -> None:
    assert edits(operator, line) == [f"{one}\n    pass" for one in changed]


def test_a_return_alone_in_its_block_is_lost_whole() -> None:
    program = "def f(x):\n    if x:\n        return 1  # so\n    return 2"
    assert by("drop_return", program) == [
        "def f(x):\n    if x:\n    return 2",
        "def f(x):\n    if x:\n        1  # so\n    return 2",
        "def f(x):\n    if x:\n        return 1  # so\n    2",
    ]


def test_no_mutant_is_a_prefix_of_its_program() -> None:
    assert by("drop_return", "def f(x):\n    return x") == ["def f(x):\n    x"]


def test_strings_comments_and_annotations_are_left_alone() -> None:
    program = '''
def f(x: "int < 3", y: list[0] = []):  # x < y and not True, range(3), x[0] + 1
    """x < y > 2, return not False + range(4) x[::-1]"""
    print("x < y", 'not True', f"{x + 1} {x[0] < y}", rb"return 1 + 1")
'''
    assert mutants(program) == []


def test_text_beyond_ascii_and_long_lines() -> None:
    program = "def f(x):\n    é = '😀' + x; 名 = é[0]  # <\n    return 名 < é"
    found = {one.operator: one.program for one in mutants(program)}
    assert found["index_shift"] == program.replace("[0]", "[1]")
    assert found["flip_comparison"] == program.replace("名 < é", "名 <= é")
    assert found["flip_arith"] == program.replace("+", "-")


def test_misspellings_are_new_names() -> None:
    assert misspelt("total", frozenset()) == "totla"
    assert misspelt("ch", frozenset({"chh"})) == "chhh"
    assert misspelt("tree", frozenset()) == "treee"
    assert misspelt("lits", frozenset()) not in ("list", "lits")


def test_programs_that_cannot_be_read() -> None:
    with pytest.raises(ValueError, match="LibCST cannot read"):
        mutants("def f(:")


@pytest.mark.parametrize("task", BUILTIN[::4], ids=lambda task: task.task_id)
def test_every_mutant_is_one_small_edit(task: Task) -> None:
    program = task.gold_action
    found = mutants(program)
    assert len({one.program for one in found}) == len(found) > 0
    for mutant in found:
        before, after = program.split("\n"), mutant.program.split("\n")
        opcodes = difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
        changes = [code for code in opcodes if code[0] != "equal"]
        assert len(changes) == 1
        _, start, end, _, _ = changes[0]
        assert start + 1 == end == mutant.line
        if mutant.operator != "drop_return":
            ast.parse(mutant.program)


def test_every_operator_meets_several_builtin_problems() -> None:
    met = dict.fromkeys(OPERATORS, 0)
    for task in BUILTIN:
        for name in {one.operator for one in mutants(task.gold_action)}:
            met[name] += 1
    assert min(met.values()) >= 8, met
