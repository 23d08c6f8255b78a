"""A printed table as a value, and its renderings as CSV, Markdown and LaTeX."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

DIGITS = {
    "nats": 2,
    "nats/token": 2,
    "nats/byte": 3,
    "probability": 3,
    "proportion": 3,
    "share": 3,
    "fraction": 3,
    "tokens": 1,
}


LINE = 90
"""Characters that fit on a line of a LaTeX page."""


class Entry(NamedTuple):
    """One printed cell.

    Attributes:
        text: what is printed, without mark-up.
        value: what it sorts by, NaN where it is text.
        detail: printed after it, never bold: the interval and n.
        bold: whether the interval of a signed measure excludes zero.
        code: whether the text is code or a name in code.
    """

    text: str
    value: float = math.nan
    detail: str = ""
    bold: bool = False
    code: bool = False


@dataclass(frozen=True)
class Table:
    """A table ready to print, and its numbers in full.

    Attributes:
        name: the stem of its files.
        caption: one or two sentences: what, on what, under which weights.
        columns: the heads, one per entry of each row.
        rows: the printed cells.
        data: the numbers at full precision, one row per number.
        notes: what a reader needs beside the caption, one line each.
    """

    name: str
    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Entry, ...], ...]
    data: pd.DataFrame
    notes: tuple[str, ...] = field(default=())


def of_frame(name: str, caption: str, frame: pd.DataFrame, notes: Iterable[str] = ()) -> Table:
    """A data frame as a table that prints its columns as they are."""
    rows = tuple(tuple(map(_plain, row)) for row in frame.to_numpy(dtype=object))
    columns = tuple(str(column).replace("_", " ") for column in frame.columns)
    return Table(name, caption, columns, rows, frame, tuple(notes))


def _plain(value: Any) -> Entry:
    if isinstance(value, bool | np.bool_):
        return Entry("yes" if value else "no")
    if isinstance(value, int | float | np.number):
        as_float = float(value)
        if math.isnan(as_float):
            return Entry("—")
        return Entry(f"{as_float:.3g}" if abs(as_float) < 1000 else f"{as_float:.0f}", as_float)
    return Entry("—" if value is None else str(value))


def number(value: float, unit: str) -> str:
    """A number with the decimals of its unit and a real minus sign, "undefined" if not finite."""
    if not math.isfinite(value):
        return "undefined"
    text = f"{value:.{DIGITS[unit]}f}" if unit in DIGITS else f"{value:.2g}"
    if float(text) == 0:
        text = text.removeprefix("-")
    return text.replace("-", "−")


def csv(table: Table) -> str:
    """The table's data, numbers with all their digits."""
    return table.data.to_csv(index=False, lineterminator="\n")


def markdown(table: Table) -> str:
    """A pipe table under its caption; bold where an interval excludes zero."""
    lines = [
        f"**{_markdown_text(table.caption)}**",
        "",
        _pipe(_markdown_text(column) for column in table.columns),
        _pipe("---" for _ in table.columns),
        *(_pipe(map(_markdown_entry, row)) for row in table.rows),
    ]
    for note in table.notes:
        lines += ["", _markdown_text(note)]
    return "\n".join(lines) + "\n"


def latex(table: Table) -> str:
    """A `table` environment for the booktabs package."""
    rows = [" & ".join(map(_latex_entry, row)) + r" \\" for row in table.rows]
    notes = [rf"\par\smallskip\footnotesize {_latex_text(note)}" for note in table.notes]
    return "\n".join(
        [
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{_latex_text(table.caption)}}}",
            rf"\label{{tab:{re.sub(r'[^A-Za-z0-9:-]', '-', table.name)}}}",
            rf"\begin{{tabular}}{{{_widths(table)}}}",
            r"\toprule",
            " & ".join(map(_latex_text, table.columns)) + r" \\",
            r"\midrule",
            *rows,
            r"\bottomrule",
            r"\end{tabular}",
            *notes,
            r"\end{table}",
            "",
        ]
    )


def _pipe(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _markdown_entry(entry: Entry) -> str:
    text = _markdown_code(entry.text) if entry.code else _markdown_text(entry.text)
    if entry.bold:
        text = f"**{text}**"
    return f"{text} {_markdown_text(entry.detail)}" if entry.detail else text


def _markdown_text(text: str) -> str:
    return re.sub(r"([\\`*|<])", r"\\\1", _one_line(text))


def _markdown_code(text: str) -> str:
    """A code span; its fence is longer than any run of backticks inside."""
    text = _one_line(text).replace("|", r"\|")
    longest = max(map(len, re.findall("`+", text)), default=0)
    fence = "`" * (longest + 1)
    pad = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{pad}{text}{pad}{fence}" if text else ""


def _widths(table: Table) -> str:
    """Column types: as wide as they need, or wrapped to fit the line where that is too wide."""
    lengths = [
        max(len(entry.text) + len(entry.detail) for entry in (Entry(head), *column))
        for head, *column in zip(table.columns, *table.rows, strict=True)
    ]
    if sum(lengths) <= LINE:
        return "l" * len(lengths)
    share = max(0.02, 1 / len(lengths) - 0.03)  # less what stands between columns
    return rf"p{{{share:.2f}\linewidth}}" * len(lengths)


def _latex_entry(entry: Entry) -> str:
    text = _latex_text(entry.text)
    if entry.code:
        text = rf"\texttt{{{text}}}"
    if entry.bold:
        text = rf"\textbf{{{text}}}"
    return f"{text} {_latex_text(entry.detail)}" if entry.detail else text


_LATEX = {
    **{character: rf"\{character}" for character in "{}$&#%_"},
    "\\": r"\textbackslash{}",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "−": "$-$",
    "±": r"$\pm$",
    "≥": r"$\geq$",
    "↵": r"$\hookleftarrow$",
    "†": r"\dag{}",
    "‡": r"\ddag{}",
    "§": r"\S{}",
    "¶": r"\P{}",
    "…": r"\dots{}",
}


def _latex_text(text: str) -> str:
    return "".join(_LATEX.get(character, character) for character in _one_line(text))


def _one_line(text: str) -> str:
    return re.sub(r"\s*\n\s*", " ↵ ", text.strip("\n")).replace("\t", " ")
