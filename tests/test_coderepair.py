"""CodeRepair: problems, the judge, what the interpreter prints, and the pool."""

from __future__ import annotations

import hashlib
import http.server
import json
import os
import re
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from itertools import permutations
from pathlib import Path
from statistics import mean
from typing import Any

import pytest

from backfire.environments import KINDS
from backfire.environments.base import Pool
from backfire.environments.coderepair import pool as pools
from backfire.environments.coderepair.assertions import AssertionUnreadable, decode, read
from backfire.environments.coderepair.fetch import fetch_mbpp
from backfire.environments.coderepair.observations import (
    FAMILIES,
    Frame,
    ProgramError,
    render_error,
)
from backfire.environments.coderepair.operators import OPERATORS
from backfire.environments.coderepair.runtime import canonical, execute, execute_all
from backfire.environments.coderepair.tasks import FILES, Task, load, problems_file, tidy
from backfire.errors import UserError
from backfire.items import Item, draw, from_table, to_table

SEED = 20260808
MBPP = os.environ.get("BACKFIRE_MBPP")
BUILTIN = load({"problems": "builtin"})[0]


def task(code: str, *tests: str, setup: str = "") -> Task:
    return Task("t", "Do it.", code, tuple(map(read, tests)), setup)


# The judge


@pytest.mark.parametrize(
    ("text", "value", "holds"),
    [
        ("assert f(1) == 2", 2, True),
        ("assert f(1) == 2", 3, False),
        ("assert f(1) == 2", True, False),
        ("assert f(1) == (1, [2, {'a': -1.5}])", (1, [2, {"a": -1.5}]), True),
        ("assert f(1) == (1, 2)", [1, 2], False),
        ("assert set(f(1)) == set([1, 2])", [2, 1, 2], True),
        ("assert set(f(1)) == {1, 2}", 7, False),
        ("assert math.isclose(f(1), 0.3, rel_tol=0.01)", 0.3001, True),
        ("assert math.isclose(f(1), 0.3, rel_tol=0.01)", 0.4, False),
        ("assert math.isclose(f(1), 0.3)", "0.3", False),
        ("assert f(1)", "yes", True),
        ("assert not f(1)", [], True),
        ("assert not f(1)", [0], False),
        ("assert f(1) is None", None, True),
        ("assert f(1) != 2 and f(1) < 4", 3, True),
        ("assert 1 < f(1) <= 3", 1, False),
        ("assert f(1) == 1 - 2j", 1 - 2j, True),
        ("assert f(1) > 2", "a", False),
        ("assert 3 in f(1)", {1, 3}, True),
        ("assert len(f(1)) == 2 and sorted(f(1)) == [1, 2]", [2, 1], True),
    ],
)
def test_judge(text: str, value: Any, holds: bool) -> None:
    assertion = read(text)
    assert assertion.calls == ("f(1)",)
    assert assertion.holds([value]) is holds


def test_the_program_is_told_its_arguments_and_not_what_is_expected() -> None:
    assertion = read('assert pair(first(3), "x=7")  ==  (3, 90125)')
    assert assertion.calls == ("pair(first(3), 'x=7')",)
    assert assertion.text == 'assert pair(first(3), "x=7")  ==  (3, 90125)'


@pytest.mark.parametrize(
    "text",
    [
        "f(1) == 2",
        "assert f(1) == 2; import os",
        "assert f(1) ==",
        "assert True",
        "assert f(1) == sys.getsizeof(1)",
        "assert f(1) == open('x')",
        "assert f(1).x == 2",
        "assert f(1)[0] == 2",
        "assert f(1) == 2 ** 9 ** 9",
        "assert [x for x in f(1)] == [2]",
        "assert (lambda: f(1))() == 2",
        "assert set(*f(1)) == {2}",
        "assert __import__('os').system('true') == f(1)",
    ],
)
def test_what_the_judge_refuses(text: str) -> None:
    with pytest.raises(AssertionUnreadable):
        read(text)


@pytest.mark.parametrize(
    "sent",
    [
        7,
        1.5,
        [1],
        {},
        {"int": "x"},
        {"int": 3},
        {"set": [{"list": []}]},
        {"opaque": "Foo"},
        {"a": 1},
        {"dict": [[1]]},
        {"list": None},
        {"int": "1", "float": "1"},
    ],
)
def test_what_is_no_encoded_value(sent: Any) -> None:
    with pytest.raises((ValueError, TypeError)):
        decode(sent)


VALUES = [
    "None", "True", "0", "-1000000000000000000000", "1.5", "1e999", "-0.0", "2 - 3j", "''",
    r"'é\n\"\\\0😀'", r"b'\x00\xff'", "[]", "()", "set([])", "{}", "frozenset([1])",
    "[1, (2, {3: {'a', 'b'}})]", "{(1, 2): [None]}", "0x" + "7" * 5000,
]  # fmt: skip


def test_values_come_back_as_they_were() -> None:
    program = f"def f(n):\n    return [{', '.join(VALUES)}][n]"
    tests = [f"assert f({number}) == {value}" for number, value in enumerate(VALUES)]
    assert execute(task("", *tests), program).ok


def test_what_the_standard_library_adds_to_dicts_is_plain_data() -> None:
    program = "from collections import *\ndef f():\n    return [Counter('aab'), OrderedDict(b=1)]"
    assert execute(task("", "assert f() == [{'a': 2, 'b': 1}, {'b': 1}]"), program).ok


# What the interpreter prints

TESTS = ("assert f(1) == 2", "assert f(5) == 6")


def failed(program: str, *tests: str) -> ProgramError:
    error = execute(task("", *(tests or TESTS)), program).error
    assert error is not None
    return error


def test_a_wrong_value() -> None:
    error = failed("def f(x):\n    return 2\n")
    assert error.family == "test_failure"
    assert render_error(error) == (
        "Traceback (most recent call last):\n"
        '  File "tests.py", line 2, in <module>\n'
        "    assert f(5) == 6\n"
        "AssertionError"
    )
    assert render_error(error, "terse") == "AssertionError"
    assert render_error(error, "verbose").endswith(
        "\n\nThe program failed test 2 of 2. Every test has to pass, and later tests were not run."
    )
    assert error.as_dict() == {
        "family": "test_failure",
        "type": "AssertionError",
        "message": "",
        "line": None,
        "source_line": None,
        "test": 2,
        "quotes_submission": False,
    }


def test_an_exception() -> None:
    error = failed("def g(x):\n    return x[3]\n\ndef f(x):\n    return g([x])  # here\n")
    assert render_error(error) == (
        "Traceback (most recent call last):\n"
        '  File "solution.py", line 5, in f\n'
        "    return g([x])  # here\n"
        '  File "solution.py", line 2, in g\n'
        "    return x[3]\n"
        "IndexError: list index out of range"
    )
    assert '  File "tests.py", line 1, in <module>\n' in render_error(error, "verbose")
    assert (error.family, error.as_dict()["line"]) == ("runtime_error", 2)
    assert error.as_dict()["source_line"] == "return x[3]"
    assert error.quotes_submission


def test_a_missing_function() -> None:
    error = failed("def g(x):\n    return 2")
    assert render_error(error, "terse") == "NameError: name 'f' is not defined"
    assert not error.quotes_submission
    assert error.test == 1


def test_a_syntax_error() -> None:
    error = failed("def f(x):\n    if x:\n    return 2")
    assert (error.family, error.test) == ("syntax_error", None)
    assert render_error(error) == (
        '  File "solution.py", line 3\n'
        "    return 2\n"
        "IndentationError: expected an indented block after 'if' statement on line 2"
    )
    assert error.quotes_submission


def test_an_error_before_any_test_is_no_failed_test() -> None:
    error = failed("f = 1 / 0")
    assert (error.family, error.type) == ("runtime_error", "ZeroDivisionError")
    assert '  File "solution.py", line 1, in <module>\n    f = 1 / 0\n' in render_error(error)


def test_a_timeout() -> None:
    error = failed("def f(x):\n    while x:\n        pass")
    assert (error.family, error.test) == ("timeout", 1)
    assert render_error(error) == "TimeoutError: the program did not finish within 1 s"


def test_the_first_failing_test_counts_whatever_later_ones_do() -> None:
    assert failed("def f(x):\n    while x > 1:\n        pass").family == "test_failure"


def test_a_long_traceback_is_bounded() -> None:
    program = "def f(x):\n    return g(x)\ndef g(x):\n    return f(x)"
    text = render_error(failed(program))
    assert text.count("\n") < 40
    assert "entries left out]" in text
    deep = render_error(failed("def f(x):\n    return f(x)"))
    assert re.search(r"return f\(x\)\n  \[Previous line repeated 9\d\d more times\]\nRecurs", deep)


def test_repeated_frames_are_folded_as_the_interpreter_folds_them() -> None:
    frames = tuple(Frame("solution.py", 2, "f", "return f(x)") for _ in range(4))
    error = ProgramError("runtime_error", "E", "", frames, 1, 1, frozenset())
    assert render_error(error).count("return f(x)") == 3
    assert "  [Previous line repeated 1 more time]\n" in render_error(error)


REAL = {
    "wrong value": "def f(x):\n    return 2",
    "index": "def f(x):\n    return [\n        1, 2][x + 4]",
    "nested": "def f(x):\n    def g(y):\n        return y.no\n    return [g(n) for n in [x]]",
    "comprehension": "def f(x):\n    return {\n        n: [k.no for k in [n]]\n    for n in [x]}",
    "key": "def f(x):\n    return {}['a b']",
    "name": "def f(value):\n    return valeu",
    "type": "def f(x):\n    return 'a' + x",
    "module": "import json\ndef f(x):\n    return json.loads('{')",
    "own class": "class Odd(Exception):\n    pass\ndef f(x):\n    raise Odd('so', x)",
    "no message": "def f(x):\n    raise ValueError",
    "two lines": "def f(x):\n    raise ValueError('a\\nb')",
    "at load": "x = 3\ny = x[0]\n",
    "recursion": "def f(x):\n    return 1 + f(x) if x else g(x)\ndef g(x):\n    return x",
    "block": "def f(x):\n    if x:\n    return 2",
    "last block": "def f(x):",
    "bracket": "def f(x):\n    return (x",
    "string": "def f(x):\n    return 'x",
    "tab": "def f(x):\n    if x:\n\treturn 2\n        return 3",
}


@pytest.mark.parametrize("name", REAL)
def test_the_text_is_the_interpreters_own(name: str, tmp_path: Path) -> None:
    """Run the program in a plain interpreter and compare what it writes to standard error."""
    program = REAL[name]
    (tmp_path / "solution.py").write_text(program, encoding="utf-8")
    (tmp_path / "tests.py").write_text("\n".join(TESTS), encoding="utf-8")
    error = failed(program)
    start = "from solution import *; exec(compile(open('tests.py').read(), 'tests.py', 'exec'))"
    command = ["solution.py"] if error.family == "syntax_error" else ["-c", start]
    printed = subprocess.run(
        [sys.executable, "-B", *command], cwd=tmp_path, capture_output=True, text=True, check=False
    ).stderr
    printed = printed.replace(f"{tmp_path}{os.sep}", "")
    printed = re.sub(r"^\s+[~^]+\n", "", printed, flags=re.MULTILINE)
    printed = re.sub(r'  File "(?!solution|tests).*\n(    .*\n)?', "", printed)
    comprehension = r'line \d+, in (.*)\n.*\n  File "solution.py", line (\d+), in <\w+comp>'
    while "comp>" in printed:
        printed = re.sub(comprehension, r"line \2, in \1", printed)
    printed = re.sub(r"\. Did you mean: .*", "", printed)
    ours = render_error(error, "verbose").rpartition("\n\n")[0] + "\n"
    count = re.compile(r"repeated \d+ more")
    assert count.sub("repeated", ours) == count.sub("repeated", printed)


def test_canonical_programs() -> None:
    program = "def f(x):\n    # so\n    return  'a'+x"
    assert canonical(program) == canonical('def f(x): return "a" + x\n')
    assert canonical(program) != canonical("def f(x): return 'a' - x")
    assert canonical("  no   program ") == "no program"
    assert canonical("(" * 20000) == "(" * 20000
    assert canonical("x = '\0'") == "x = '\0'"


# Problems


def test_builtin_problems() -> None:
    assert len(BUILTIN) >= 80
    assert all(len(one.tests) >= 3 for one in BUILTIN)
    assert len({one.gold_action for one in BUILTIN}) == len(BUILTIN)
    outcomes = execute_all((one, one.gold_action) for one in BUILTIN)
    assert [one.task_id for one, got in zip(BUILTIN, outcomes, strict=True) if not got.ok] == []


def test_the_goal_shows_the_problem_and_its_tests() -> None:
    one = BUILTIN[0]
    assert one.prompt in one.goal
    assert all(test.text in one.goal.splitlines() for test in one.tests)


@pytest.mark.parametrize(
    ("code", "tidied"),
    [
        ("def f():\r\n\treturn 1 \r\n", "def f():\n    return 1"),
        ("\n\ndef f():\n  return 1\t# one  \n", "def f():\n  return 1  # one"),
        ("x = '\ta'\r\n", "x = '\ta'"),
        ('x = """a  \nb"""', 'x = """a  \nb"""'),
        ("if x:\n\ty\n        z", "if x:\n\ty\n        z"),
        ("no python \t", "no python \t"),
    ],
)
def test_tidy(code: str, tidied: str) -> None:
    assert tidy(code) == tidied


PROBLEM = {
    "task_id": 1,
    "prompt": "p",
    "code": "def f():\n    return 1",
    "test_list": ["assert f()"],
}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "not JSON"),
        ("[]", "list of problems"),
        ("{}", "list of problems"),
        ("[3]", "problem 1 is int"),
        (json.dumps([{**PROBLEM, "code": 3}]), "problem 1: `code` is int, text is expected"),
        (json.dumps([{"task_id": 1}]), "`prompt` is nothing"),
        (json.dumps([{**PROBLEM, "test_list": []}]), "`test_list` is empty"),
        (json.dumps([{**PROBLEM, "test_list": [1]}]), "`test_list` is something other"),
        (json.dumps([{**PROBLEM, "test_imports": "os"}]), "`test_imports`"),
        (json.dumps([PROBLEM, PROBLEM]), "problem 2: task_id 1 was used before"),
    ],
)
def test_faulty_problem_files(content: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "problems.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(UserError) as caught:
        load({"problems": "mbpp", "path": str(path)})
    message = str(caught.value)
    assert words in message
    assert str(path) in message
    assert "\n" not in message


def test_a_file_that_is_not_there_and_a_source_that_is_none() -> None:
    with pytest.raises(UserError, match=r"nowhere\.json: cannot be read"):
        load({"problems": "mbpp", "path": "nowhere.json"})
    with pytest.raises(UserError, match="`problems` is 'mbbp', builtin or mbpp"):
        load({"problems": "mbbp"})
    with pytest.raises(UserError, match="`path` goes with"):
        load({"problems": "builtin", "path": "x.json"})


def test_what_is_left_out_is_counted(tmp_path: Path) -> None:
    rows = [
        PROBLEM,
        {**PROBLEM, "task_id": 2, "test_list": ["assert f() == 2"]},
        {**PROBLEM, "task_id": 3, "test_list": ["assert f() == g().h"]},
    ]
    path = tmp_path / "problems.json"
    path.write_text(json.dumps(rows), encoding="utf-8")
    pool = pools.build_pool({"problems": "mbpp", "path": str(path)}, SEED)
    assert pool.items == []
    assert pool.notes["problems whose assertions cannot be judged outside the program"] == 1
    assert pool.notes["problems whose reference fails its own tests"] == 1


# Fetching


@pytest.fixture
def server() -> Iterator[str]:
    """Serves /file whole, /short with fewer bytes than promised, and nothing else."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path not in ("/file", "/short"):
                self.send_error(404)
                return
            self.send_response(200)
            self.send_header("Content-Length", str(len(CONTENT)))
            self.end_headers()
            self.wfile.write(CONTENT if self.path == "/file" else CONTENT[:-5])

        def log_message(self, *arguments: Any) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{running.server_address[1]}"
        running.shutdown()


CONTENT = json.dumps([PROBLEM] * 5000).encode()
DIGEST = hashlib.sha256(CONTENT).hexdigest()


def test_fetch(server: str, tmp_path: Path) -> None:
    destination = tmp_path / "new" / "problems.json"
    fetch_mbpp(f"{server}/file", DIGEST, destination)
    assert destination.read_bytes() == CONTENT
    assert [path.name for path in destination.parent.iterdir()] == ["problems.json"]


@pytest.mark.parametrize(
    ("path", "digest", "words"),
    [
        ("/file", "0" * 64, f"sha256 is {DIGEST}, {'0' * 64} is expected"),
        ("/short", DIGEST, "broke off after"),
        ("/none", DIGEST, "404"),
    ],
)
def test_failed_fetches_leave_nothing(
    path: str, digest: str, words: str, server: str, tmp_path: Path
) -> None:
    destination = tmp_path / "problems.json"
    destination.write_text("the old one", encoding="utf-8")
    with pytest.raises(UserError, match=re.escape(words)) as caught:
        fetch_mbpp(f"{server}{path}", digest, destination)
    assert "\n" not in str(caught.value)
    assert f"{server}{path}" in str(caught.value)
    assert destination.read_text(encoding="utf-8") == "the old one"
    assert list(tmp_path.iterdir()) == [destination]


def test_fetching_from_nowhere(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be fetched"):
        fetch_mbpp("http://127.0.0.1:9/x", DIGEST, tmp_path / "x")
    with pytest.raises(UserError, match="cannot be fetched"):
        fetch_mbpp("no url", DIGEST, tmp_path / "x")


# The pool


@pytest.fixture(scope="module")
def rows() -> list[dict[str, Any]]:
    return list(json.loads(FILES["builtin"].read_text(encoding="utf-8")))


@pytest.fixture(scope="module")
def pool(rows: list[dict[str, Any]], tmp_path_factory: pytest.TempPathFactory) -> Pool:
    """The pool of every third built-in problem, which is enough to meet every rule."""
    path = tmp_path_factory.mktemp("problems") / "third.json"
    path.write_text(json.dumps(rows[::3]), encoding="utf-8")
    return KINDS["coderepair"].build_pool({"problems": "mbpp", "path": str(path)}, SEED)


def test_the_seed_decides(rows: list[dict[str, Any]], tmp_path: Path) -> None:
    path = tmp_path / "few.json"
    path.write_text(json.dumps(rows[:4]), encoding="utf-8")
    settings = {"problems": "mbpp", "path": str(path)}
    first, again, other = (pools.build_pool(settings, seed).items for seed in (1, 1, 2))
    assert first == again != other


def test_the_pool_meets_its_rules(pool: Pool) -> None:
    _check(pool.items)
    assert {item.operator for item in pool.items} == set(OPERATORS)


def _check(items: list[Item]) -> None:
    assert len({item.item_id for item in items}) == len(items)
    assert items == sorted(items, key=lambda item: item.item_id)
    pairs = Counter((item.task_id, item.operator) for item in items)
    assert max(pairs.values()) == 1
    assert max(Counter(item.operator for item in items).values()) <= pools.PER_OPERATOR
    assert len({item.error_family for item in items}) >= 3
    for item in items:
        assert item.error_family in FAMILIES
        assert len(item.candidates) == 4
        for one, other in permutations(item.candidates.values(), 2):
            assert not one.startswith(other)
        assert set(item.observations) == {"fail", "terse", "verbose", "echo", "succ", "neut"}
        assert all(item.observations.values())
        assert item.failed_action in item.observations["echo"]
        assert item.other is not None and item.unrelated is not None and item.error is not None
        assert item.other.action not in (item.failed_action, item.gold_action)
        assert item.unrelated.action != item.other.action
        quoted = {line.strip() for line in item.observations["fail"].splitlines()}
        own = {line.strip() for line in item.failed_action.splitlines()} - {""}
        assert item.error["quotes_submission"] is bool(quoted & own)
        assert item.history == () and item.tool is None
        texts = [*item.observations.values(), item.other.observation, item.unrelated.observation]
        assert not any(re.search(r"/tmp|/usr|/home|0x[0-9a-f]{6}|\^\^", text) for text in texts)


def test_an_unrelated_failure_shares_no_word(pool: Pool) -> None:
    for item in pool.items:
        assert item.unrelated is not None
        theirs = pools._words(item.unrelated.action)
        assert theirs.isdisjoint(pools._words(f"{item.failed_action}\n{item.gold_action}"))


def test_every_item_fails_again(pool: Pool) -> None:
    tasks = {one.goal: one for one in BUILTIN}
    drawn = draw(pool.items, 12, 1, SEED)
    outcomes = execute_all((tasks[item.goal], item.failed_action) for item in drawn)
    for item, outcome in zip(drawn, outcomes, strict=True):
        assert outcome.error_family == item.error_family
        assert outcome.observation == item.observations["fail"]


def test_the_pool_survives_its_file(pool: Pool) -> None:
    assert from_table(to_table(pool.items)) == pool.items


@pytest.mark.slow
def test_the_whole_builtin_pool() -> None:
    """Every operator on several tasks, and enough tasks for the probe's one item each."""
    pool = pools.build_pool({"problems": "builtin"}, SEED)
    _check(pool.items)
    assert min(Counter(item.operator for item in pool.items)[name] for name in OPERATORS) >= 5
    assert len(draw(pool.items, 60, 1, SEED)) == 60


@pytest.mark.slow
@pytest.mark.parametrize("source", list(FILES))
def test_a_study_in_another_folder_is_the_same_study(
    source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is named from where the study runs: an absolute name would make it all anew."""
    monkeypatch.chdir(tmp_path)
    path = problems_file({"problems": source})
    assert not path.is_absolute()
    assert path.resolve() == FILES[source].resolve()


@pytest.mark.skipif(MBPP is None, reason="BACKFIRE_MBPP does not name sanitized-mbpp.json")
def test_the_mbpp_pool_has_the_published_shape() -> None:
    pool = pools.build_pool({"problems": "mbpp", "path": str(MBPP)}, SEED)
    _check(pool.items)
    assert {item.operator for item in pool.items} == set(OPERATORS)
    assert {item.error_family for item in pool.items} == set(FAMILIES)
    assert len(pool.items) == pytest.approx(266, rel=0.1)
    assert len({item.task_id for item in pool.items}) == pytest.approx(132, rel=0.15)
    assert mean(len(item.failed_action) for item in pool.items) == pytest.approx(198, rel=0.2)
    assert mean(len(item.observations["fail"]) for item in pool.items) == pytest.approx(
        150, rel=0.2
    )
