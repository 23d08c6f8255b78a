"""The sections of the report, in order; `report.py` says how to add one.

Each function gives what its template shows, or None when there is nothing to show.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from backfire.cells import Cell, Reading, Study, format_interval, format_value
from backfire.figures import families_statement
from backfire.report_inputs import Grid, ReportInputs
from backfire.summary import ESTIMAND, label
from backfire.verdict import (
    SHORT,
    Sentence,
    cautions,
    decoding,
    effect,
    forced_choice,
    form,
    headline,
    per_token,
    rewrites,
    right_action,
    share_of_items,
)
from backfire.worked import RULE, work

Values = Mapping[str, Any]
Say = Callable[[Study, str, str], list[Sentence]]


class Section(NamedTuple):
    """A section: `name` is its anchor and its template's name."""

    name: str
    title: str
    build: Callable[[ReportInputs, Study], Values | None]


def cases(inputs: ReportInputs, study: Study) -> list[tuple[str, str, str]]:
    """(model, environment, how the two are headed) for all that was measured."""
    return [
        (model, environment, f"{label(model, card)} on {environment}")
        for model, card in inputs.cards.items()
        for environment in study.environments(model)
    ]


def said(inputs: ReportInputs, study: Study, *parts: Say) -> list[tuple[str, list[Sentence]]]:
    """What the parts say of each model and environment, under its heading; empty ones drop out."""
    found = []
    for model, environment, title in cases(inputs, study):
        sentences = [s for part in parts for s in part(study, model, environment) if s]
        if sentences:
            found.append((title, sentences))
    return found


def finding(inputs: ReportInputs, study: Study) -> Values:
    """The headline of every model and environment, and the decomposition as a picture."""
    verdicts = []
    for model, environment, title in cases(inputs, study):
        name = label(model, inputs.cards[model])
        sentences = [
            *headline(study, model, environment, name),
            *per_token(study, model, environment),
            *cautions(study, model, environment),
        ]
        verdicts.append((title, SHORT[effect(study, model, environment)], sentences))
    return {"verdicts": verdicts}


def decomposition(inputs: ReportInputs, study: Study) -> Values | None:
    return _if_any(
        said=said(inputs, study, lambda *case: [form(*case)], share_of_items, right_action),
        grids=inputs.grid("table3", "table5"),
    )


def remedies(inputs: ReportInputs, study: Study) -> Values | None:
    """Which other ways to write the record remove the effect, where there is one."""

    def say(study: Study, model: str, environment: str) -> list[Sentence]:
        if effect(study, model, environment) is not Reading.BELOW:
            return []
        return rewrites(study, model, environment)

    return _if_any(said=said(inputs, study, say), grids=inputs.grid("table7"))


def signmap(inputs: ReportInputs, study: Study) -> Values | None:
    grids = inputs.grid("signmap", "deciles")
    return {"grids": grids} if grids or "signmap" in inputs.figures else None


def repetition(inputs: ReportInputs, study: Study) -> Values | None:
    return _if_any(said=said(inputs, study, forced_choice, decoding), grids=inputs.grid("table4"))


def families(inputs: ReportInputs, study: Study) -> Values | None:
    if not study.by_group("G", "error_family"):
        return None
    return {
        "statement": families_statement(study),
        "grids": inputs.grid("table12", "table11"),
    }


def tokens(inputs: ReportInputs, study: Study) -> Values | None:
    return {} if "tokens" in inputs.figures else None


def replication(inputs: ReportInputs, study: Study) -> Values | None:
    grids = inputs.grid("replication")
    return {"grids": grids} if grids else None


def items(inputs: ReportInputs, study: Study) -> Values | None:
    """Three items of each model and environment, as the model saw them."""
    worked = []
    for model, environment, title in cases(inputs, study):
        scores = inputs.scores.get((model, environment))
        if scores is not None:
            worked.append((title, work(scores, inputs.items[environment], inputs.chats[model])))
    return {"rule": RULE, "worked": worked} if worked else None


def methods(inputs: ReportInputs, study: Study) -> Values:
    checks = inputs.checks
    return {
        "estimand": ESTIMAND,
        "confidence": f"{100 * inputs.confidence:g} %",
        "margin": inputs.margin,
        "cards": {label(model, card): card for model, card in inputs.cards.items()},
        "checked": bool(len(checks)),
        "passed": bool(len(checks)) and bool(checks["ok"].all()),
        "checks": _frame_grid("checks", "Stored scores repeated by the plain loop", checks),
        "steps": _frame_grid("steps", "Time and memory of each kind of job", inputs.steps),
        "grids": inputs.grid("table2", "table10"),
        "versions": inputs.versions,
        "config": inputs.config,
    }


def numbers(inputs: ReportInputs, study: Study) -> Values:
    """Every measure over all items, the page's own view of the file of estimates."""
    rows = [
        [label(model, inputs.cards[model]), environment, *_measure_row(cell)]
        for model, environment, _ in cases(inputs, study)
        for name in study.measures(model, environment)
        if (cell := study.get(model, environment, name)) is not None
    ]
    header = ["model", "environment", "measure", "mean", "interval", "n", "tasks", "status"]
    title = "Every measure over all items"
    return {"grid": Grid("estimates", title, header, rows, inputs.source)}


def _measure_row(cell: Cell) -> list[str]:
    mean = format_value(cell.mean, cell.measure)
    counts = [str(cell.n), str(cell.clusters)]
    return [cell.measure, mean, format_interval(cell), *counts, cell.status]


def _frame_grid(name: str, title: str, frame: Any) -> Grid | None:
    if not len(frame):
        return None
    rows = [[_plain(value) for value in row] for row in frame.itertuples(index=False)]
    return Grid(name, title, [str(c).replace("_", " ") for c in frame.columns], rows, "")


def _plain(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.3g}" if abs(value) < 100 else f"{value:.0f}"
    return str(value)


def _if_any(**values: Any) -> Values | None:
    return values if any(values.values()) else None


SECTIONS: tuple[Section, ...] = (
    Section("finding", "The finding", finding),
    Section("decomposition", "What the record does, taken apart", decomposition),
    Section("remedies", "Which rewrite removes it", remedies),
    Section("signmap", "Where the sign comes from", signmap),
    Section("repetition", "Does it repeat the call?", repetition),
    Section("families", "By kind of error", families),
    Section("tokens", "Which tokens gain", tokens),
    Section("replication", "Beside the published study", replication),
    Section("items", "Three items, as the model saw them", items),
    Section("numbers", "All numbers", numbers),
    Section("methods", "How this was made", methods),
)
