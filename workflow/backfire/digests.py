"""Digests of library code by its meaning: comments, docstrings and layout do not count.

A rule names the module that decides its result; the digest covers that module and all that it
imports from this package. It is taken from the syntax tree, and equal on every supported Python.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

LIBRARY = Path(__file__).parents[1]

_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def digest_of(*modules: str, root: Path = LIBRARY) -> str:
    """The digest of the named modules and all that they import, found below `root`.

    Only packages that stand in `root` themselves are followed, so `digest_of("backfire.measures")`
    covers this library and no other. Modules of the same meaning under other names differ.

    Raises:
        ModuleNotFoundError: a named module does not exist.
    """
    found = closure(modules, root)
    return code_digest(found.values(), root)


def code_digest(paths: Iterable[Path], root: Path = LIBRARY) -> str:
    """The digest of Python files, in any order, each with its place below `root`."""
    named = {
        path.relative_to(root).as_posix(): _normal_form(path.read_text("utf-8")) for path in paths
    }
    total = hashlib.sha256()
    for name in sorted(named):
        total.update(f"{name}\0{named[name]}\0".encode())
    return total.hexdigest()


def closure(modules: Iterable[str], root: Path = LIBRARY) -> dict[str, Path]:
    """The named modules and all that they import below `root`, by dotted name."""
    found: dict[str, Path] = {}
    waiting = list(modules)
    for module in waiting:
        if _locate(module, root) is None:
            raise ModuleNotFoundError(f"no module {module} below {root}")
    while waiting:
        module = waiting.pop()
        path = _locate(module, root)
        if path is None or module in found:
            continue
        found[module] = path
        waiting.append(module.rpartition(".")[0])  # importing a module runs its package
        waiting.extend(_imports(path.read_text("utf-8"), module, path.name == "__init__.py"))
    return dict(sorted(found.items()))


def _locate(module: str, root: Path) -> Path | None:
    if not module:
        return None
    base = root.joinpath(*module.split("."))
    candidates = (base.with_name(base.name + ".py"), base / "__init__.py")
    return next((path for path in candidates if path.is_file()), None)


@cache
def _imports(source: str, module: str, is_package: bool) -> tuple[str, ...]:
    """All that may be a module among what is imported."""
    return tuple(_imported(source, module, is_package))


def _imported(source: str, module: str, is_package: bool) -> Iterator[str]:
    package = module if is_package else module.rpartition(".")[0]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parts = package.split(".")
            above = parts[: len(parts) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)


@cache
def _normal_form(source: str) -> str:
    return _write(ast.parse(source))


def _write(value: object) -> str:
    """A syntax tree as text, without what is empty: Pythons differ in the fields they add."""
    if isinstance(value, ast.AST):
        fields = dict(ast.iter_fields(value))
        if isinstance(value, _DOCUMENTED) and ast.get_docstring(value, clean=False) is not None:
            fields["body"] = value.body[1:]
        for idle in ("type_comment", "kind", "type_ignores"):
            fields.pop(idle, None)
        inside = [f"{k}={_write(v)}" for k, v in sorted(fields.items()) if v not in (None, [])]
        # The value of a constant may be None, which is not an absent field.
        if isinstance(value, ast.Constant):
            inside = [f"{type(value.value).__name__}:{value.value!r}"]
        return f"{type(value).__name__}({','.join(inside)})"
    if isinstance(value, list):
        return f"[{','.join(map(_write, value))}]"
    return repr(value)


def files_digest(folder: str | Path) -> str:
    """The digest of all files below a folder by name and content, such as page templates."""
    total = hashlib.sha256()
    for path in sorted(Path(folder).rglob("*")):
        if path.is_file():
            name = path.relative_to(folder).as_posix()
            total.update(f"{name}\0{hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return total.hexdigest()
