"""What the repository says of itself agrees with itself."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from rulegraph import rule_graph

from backfire.catalogue import FIGURES, TABLES


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


def test_the_container_agrees_with_the_lock_and_the_conda_environments(root: Path) -> None:
    """It installs the lock file and nothing else, under the same Python."""
    recipe = (root / "envs/Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    installed = [line for line in recipe.splitlines() if "pip install" in line]
    assert len(installed) == 1
    assert re.search(r" -r requirements.lock$", installed[0])
    assert not re.search(r"==", recipe)
    version = re.search(r"^FROM python:(3\.\d+)-", recipe, re.MULTILINE)
    assert version is not None
    for path in (root / "envs").glob("*.yaml"):
        assert f"python={version[1]}" in path.read_text(encoding="utf-8"), path.name


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


def test_links_lead_somewhere(root: Path) -> None:
    for page in [*root.glob("*.md"), *(root / "docs").glob("*.md")]:
        for link in re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8")):
            assert link.startswith("https://") or (page.parent / link).exists(), (page.name, link)


def test_every_table_and_figure_has_a_caption_in_snakemakes_report(root: Path) -> None:
    for part, names in {"tables": {*TABLES, "estimates"}, "figures": {*FIGURES}}.items():
        written = {path.stem for path in (root / "workflow/report" / part).glob("*.rst")}
        assert written == names


@pytest.mark.parametrize("profile", ["slurm", "generic"])
def test_profiles_group_rules_that_exist(root: Path, profile: str) -> None:
    path = root / "workflow/profiles" / profile / "config.yaml"
    groups = yaml.safe_load(path.read_text(encoding="utf-8"))["groups"]
    rules = "".join(path.read_text("utf-8") for path in (root / "workflow/rules").glob("*.smk"))
    for group in groups:
        assert f"rule {group.partition('=')[0]}:" in rules, group
