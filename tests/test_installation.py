"""What is installed: the lock file, the conda files and the container agree, and suffice."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from importlib.metadata import packages_distributions, requires
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from backfire.environments import KINDS

ROOT = Path(__file__).parents[1]
FILES = sorted((ROOT / "envs").glob("*.yaml"))

# Only what an environment holds can be imported.
ONLY = """
import sys
from importlib.machinery import PathFinder
hidden = {hidden!r}
class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] in hidden:
            return None
        return PathFinder.find_spec(name, path, target)
    find_distributions = PathFinder.find_distributions
sys.meta_path[:] = [Finder if finder is PathFinder else finder for finder in sys.meta_path]
sys.path[:0] = {paths!r}
"""


def pins(root: Path) -> dict[str, str]:
    lines = (root / "requirements.lock").read_text(encoding="utf-8").splitlines()
    return dict(line.lower().split("==") for line in lines if "==" in line)


def packages(path: Path) -> list[str]:
    """What pip installs for a conda file."""
    dependencies = yaml.safe_load(path.read_text(encoding="utf-8"))["dependencies"]
    (names,) = (entry["pip"] for entry in dependencies if isinstance(entry, dict))
    return list(names)


def with_what_they_need(names: list[str]) -> set[str]:
    found: set[str] = set()
    waiting = [canonicalize_name(name) for name in names]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            for requirement in map(Requirement, requires(name) or []):
                if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                    waiting.append(canonicalize_name(requirement.name))
    return found


def scripts_by_file() -> dict[str, set[Path]]:
    """The scripts that run under each conda file."""
    found: dict[str, set[Path]] = {}
    for path in (ROOT / "workflow/rules").glob("*.smk"):
        for rule in re.split(r"\n\s*rule ", path.read_text(encoding="utf-8")):
            file = re.search(r"envs/(\w+)\.yaml", rule)
            script = re.search(r"scripts/(\w+\.py)", rule)
            if file and script:
                found.setdefault(file[1], set()).add(ROOT / "workflow/scripts" / script[1])
    return found


def imports(path: Path) -> list[str]:
    """What a script imports."""
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    return [ast.unparse(node) for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)]


def exists(module: str) -> bool:
    return (ROOT / "workflow" / module.replace(".", "/")).with_suffix(".py").exists()


def test_the_lock_holds_all_that_is_asked_for(root: Path) -> None:
    asked = (root / "requirements.in").read_text(encoding="utf-8").splitlines()
    names = [re.split("[=<>]", line)[0].lower() for line in asked if not line.startswith("#")]
    assert [name for name in names if name not in pins(root)] == []


def test_the_conda_environments_agree_with_the_lock(root: Path) -> None:
    locked = pins(root)
    assert FILES
    for path in FILES:
        for package in packages(path):
            name, version = package.split("==")
            assert locked[name] == version, f"{path.name}: {package}"


def test_the_container_agrees_with_the_lock_and_the_conda_environments(root: Path) -> None:
    """It installs the lock file and nothing else, under the same Python."""
    recipe = (root / "envs/Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    installed = [line for line in recipe.splitlines() if "pip install" in line]
    assert len(installed) == 1
    assert re.search(r" -r requirements.lock$", installed[0])
    assert not re.search(r"==", recipe)
    version = re.search(r"^FROM python:(3\.\d+)-", recipe, re.MULTILINE)
    assert version is not None
    for path in FILES:
        assert f"python={version[1]}" in path.read_text(encoding="utf-8"), path.name


def test_every_rule_has_an_environment_that_exists() -> None:
    assert scripts_by_file().keys() == {path.stem for path in FILES}


@pytest.mark.slow
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_scripts_need_nothing_else(path: Path) -> None:
    held = with_what_they_need([package.partition("==")[0] for package in packages(path)])
    hidden = {
        module
        for module, owners in packages_distributions().items()
        if not held & {canonicalize_name(owner) for owner in owners}
    }
    scripts = scripts_by_file()[path.stem]
    lines = [line for script in sorted(scripts) for line in imports(script)]
    # Environments are imported by name.
    lines += [
        f"import {module}"
        for script, name in [("build_pool.py", "pool"), ("rollout.py", "rollouts")]
        for module in (f"{kind.package}.{name}" for kind in KINDS.values())
        if any(path.name == script for path in scripts) and exists(module)
    ]
    paths = [str(ROOT / "workflow"), str(ROOT / "workflow/scripts")]
    code = ONLY.format(hidden=hidden, paths=paths) + "\n".join(lines)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
