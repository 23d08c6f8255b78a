from pathlib import Path

import pytest

from backfire.digests import LIBRARY, closure, code_digest, digest_of

SOURCE = '''"""Docstring."""
from __future__ import annotations
X: int = 1  # comment
async def f(a, /, *b: str, c=None) -> None:
    """More."""
    return f"{a!r:>{c}} {b}" if a else None
class C:
    """Documented."""
    y = [None, 1.5, b"x", ...]
    def g(self): pass
'''


def digest(root: Path, source: str) -> str:
    path = root / "m.py"
    path.write_text(source, encoding="utf-8")
    return code_digest([path], root)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("  # comment", ""),
        ('"""Docstring."""', "'''Another'''"),
        ('    """More."""\n', ""),
        ('    """Documented."""\n', "\n\n"),
        ("X: int = 1", "X : int = (1)"),
    ],
)
def test_what_means_the_same_has_the_same_digest(tmp_path: Path, old: str, new: str) -> None:
    assert old in SOURCE
    assert digest(tmp_path, SOURCE) == digest(tmp_path, SOURCE.replace(old, new))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("X: int = 1", "X: int = 2"),
        ("X: int = 1", "X: int = 1.0"),
        ("X: int = 1", "X: int = True"),
        ("else None", "else 0"),
        ("c=None", "c"),
        ("[None, 1.5", "[1.5"),
        ('b"x"', '"x"'),
        ("a, /, *b", "a, *b"),
        ("return f", "yield f"),
        ("class C", "class D"),
        ('"""More."""', 'print("More.")'),
    ],
)
def test_what_means_another_thing_has_another_digest(tmp_path: Path, old: str, new: str) -> None:
    assert old in SOURCE
    assert digest(tmp_path, SOURCE) != digest(tmp_path, SOURCE.replace(old, new))


def test_digest_is_the_same_on_every_python(tmp_path: Path) -> None:
    # Computed once; a Python whose syntax trees differ in idle fields must not change it.
    assert digest(tmp_path, SOURCE) == (
        "3acdd0310553d22b8f0b69458d68fe5293720b2bafe2b24dc81b3a342bbc266f"
    )


def make_package(root: Path, **sources: str) -> None:
    (root / "p" / "q").mkdir(parents=True)
    for name, source in {"p/__init__": "", "p/q/__init__": "", **sources}.items():
        (root / f"{name}.py").write_text(source, encoding="utf-8")


def test_closure_follows_every_form_of_import(tmp_path: Path) -> None:
    make_package(
        tmp_path,
        **{
            "p/a": "import os\nimport p.b\nfrom p import c, absent\n",
            "p/b": "def f():\n    from .q import d\n",
            "p/c": "from .q.e import name\nfrom . import a\n",
            "p/q/d": "from ..f import x\n",
            "p/q/e": "name = 1\n",
            "p/f": "x = 1\n",
            "p/unused": "",
        },
    )
    assert list(closure(["p.a"], tmp_path)) == [
        "p", "p.a", "p.b", "p.c", "p.f", "p.q", "p.q.d", "p.q.e"
    ]  # fmt: skip
    assert list(closure(["p.q.e"], tmp_path)) == ["p", "p.q", "p.q.e"]


def test_digest_changes_with_an_imported_module_and_with_no_other(tmp_path: Path) -> None:
    make_package(tmp_path, **{"p/a": "from p.b import x\n", "p/b": "x = 1\n", "p/c": "y = 1\n"})
    before = digest_of("p.a", root=tmp_path)
    (tmp_path / "p/c.py").write_text("y = 2\n", encoding="utf-8")
    (tmp_path / "p/b.py").write_text("x = 1  # one\n", encoding="utf-8")
    assert digest_of("p.a", root=tmp_path) == before
    (tmp_path / "p/b.py").write_text("x = 2\n", encoding="utf-8")
    assert digest_of("p.a", root=tmp_path) != before


def test_digest_covers_the_modules_named_in_any_order() -> None:
    assert digest_of("backfire.items", "backfire.errors") == digest_of(
        "backfire.errors", "backfire.items"
    )
    assert digest_of("backfire.items") != digest_of("backfire.conditions")
    assert (LIBRARY / "backfire" / "plan.py").exists() is False
    assert "backfire.scoring.attention" in closure(["backfire.scoring"])


def test_an_unknown_module_is_an_error() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"backfire\.nothing"):
        digest_of("backfire.nothing")
