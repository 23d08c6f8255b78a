"""What the repository says of itself agrees with itself."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from rulegraph import rule_graph


def pins(root: Path) -> dict[str, str]:
    lines = (root / "requirements.lock").read_text(encoding="utf-8").splitlines()
    return dict(line.lower().split("==") for line in lines if "==" in line)


def test_the_lock_holds_all_that_is_asked_for(root: Path) -> None:
    asked = (root / "requirements.in").read_text(encoding="utf-8").splitlines()
    names = [re.split("[=<>]", line)[0].lower() for line in asked if not line.startswith("#")]
    assert [name for name in names if name not in pins(root)] == []


def test_the_conda_environments_agree_with_the_lock(root: Path) -> None:
    locked = pins(root)
    paths = sorted((root / "envs").glob("*.yaml"))
    assert paths
    for path in paths:
        dependencies = yaml.safe_load(path.read_text(encoding="utf-8"))["dependencies"]
        (packages,) = (entry["pip"] for entry in dependencies if isinstance(entry, dict))
        for package in packages:
            name, version = package.split("==")
            assert locked[name] == version, f"{path.name}: {package}"


def test_every_rule_has_an_environment_that_exists(root: Path) -> None:
    named = {
        name
        for path in (root / "workflow/rules").glob("*.smk")
        for name in re.findall(r'conda:\s+"../../envs/(\w+)\.yaml"', path.read_text("utf-8"))
    }
    assert named == {path.stem for path in (root / "envs").glob("*.yaml")}


@pytest.mark.slow
def test_the_readme_draws_the_real_rule_graph(root: Path) -> None:
    readme = (root / "README.md").read_text(encoding="utf-8")
    (drawn,) = re.findall(r"```mermaid\n(.*?)```", readme, flags=re.DOTALL)
    assert drawn == rule_graph(root), "python tests/rulegraph.py prints the graph as it is"


def test_links_in_the_readme_lead_somewhere(root: Path) -> None:
    readme = (root / "README.md").read_text(encoding="utf-8")
    for link in re.findall(r"\]\(([^)#]+)\)", readme):
        assert link.startswith("https://") or (root / link).exists(), link
