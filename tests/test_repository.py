"""What the repository says of itself agrees with itself."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from rulegraph import rule_graph

from backfire.catalogue import FIGURES, TABLES


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
