"""The workflow's rule graph as Mermaid text, from the real DAG, without implied edges."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path


def rule_graph(root: Path) -> str:
    """The graph as it stands in the README; nodes and edges are sorted by name."""
    command = [sys.executable, "-m", "snakemake", "--rulegraph", "mermaid-js", "--forceall"]
    done = subprocess.run(command, cwd=root, capture_output=True, encoding="utf-8", check=True)
    names = dict(re.findall(r"(id\d+)\[(\w+)\]", done.stdout))
    edges = {(names[a], names[b]) for a, b in re.findall(r"(id\d+) --> (id\d+)", done.stdout)}
    kept = sorted(edge for edge in edges if not _implied(edge, edges))
    return "\n".join(["flowchart LR", *(f"    {a} --> {b}" for a, b in kept)]) + "\n"


def _implied(edge: tuple[str, str], edges: set[tuple[str, str]]) -> bool:
    """Whether a longer path leads the same way."""
    start, end = edge
    waiting = [b for a, b in edges if a == start and b != end]
    seen = set(waiting)
    while waiting:
        here = waiting.pop()
        if here == end:
            return True
        onward = {b for a, b in edges if a == here} - seen
        seen |= onward
        waiting += onward
    return False


if __name__ == "__main__":
    print(rule_graph(Path(__file__).parents[1]), end="")
