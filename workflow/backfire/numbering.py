"""The paper's table numbers, and the names of table files."""

from __future__ import annotations

NUMBERS = {
    ("gain", "toolshed"): "3",
    ("repetition", "toolshed"): "4",
    ("controls", "toolshed"): "5",
    ("gain", "coderepair"): "6",
    ("variants", "toolshed"): "7",
    ("families", "toolshed"): "12",
    ("repetition", "coderepair"): "13",
}
"""The paper's number of a table, by table and kind of environment."""


def file_name(table: str, environment: str, kind: str) -> str:
    """The stem of a table's files: `table3_toolshed`, or `gain_mine` where the paper has none."""
    given = NUMBERS.get((table, kind))
    return f"table{given}_{environment}" if given else f"{table}_{environment}"
