"""The sections of the report, in order; `report.py` says how to add one.

Each function gives what its template shows, or None when there is nothing to show.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from backfire.cells import Cell, Reading, Study, format_interval, format_value
from backfire.figures import families_statement
from backfire.measures import find
from backfire.remedies import rewrite, rewrites
from backfire.report_inputs import ReportInputs
from backfire.summary import ESTIMAND, label
from backfire.tabular import Entry, Table, of_frame
from backfire.verdict import (
    SHORT,
    Sentence,
    cautions,
    decoding,
    effect,
    forced_choice,
    headline,
    in_short,
    per_token,
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


FEW = 2
"""Up to so many models and environments the first screen has the whole verdict of each."""


def finding(inputs: ReportInputs, study: Study) -> Values:
    """The headline of every model and environment, short where they are many."""
    found = cases(inputs, study)
    verdicts = []
    for model, environment, title in found:
        reading = effect(study, model, environment)
        if len(found) <= FEW:
            sentences = [s for s in verdict_of(inputs, study, model, environment) if s]
        else:
            sentences = [in_short(study, model, environment)]
        verdicts.append((title, SHORT[reading], sentences))
    return {"verdicts": verdicts, "overview": overview(study, found)}


def verdict_of(inputs: ReportInputs, study: Study, model: str, environment: str) -> list[Sentence]:
    """The headline, the size per token, and whether the described record is the cure."""
    backfires = effect(study, model, environment) is Reading.BELOW
    remedy = [rewrite(study, model, environment, "abstract")] if backfires else []
    return [
        *headline(study, model, environment, label(model, inputs.cards[model])),
        *per_token(study, model, environment),
        *remedy,
        *cautions(study, model, environment),
    ]


def overview(study: Study, found: list[tuple[str, str, str]]) -> str:
    """How many of many cases have which verdict."""
    if len(found) <= FEW:
        return ""
    counts = Counter(SHORT[effect(study, model, environment)] for model, environment, _ in found)
    parts = [f"{verdict} in {count}" for verdict, count in counts.most_common()]
    return f"Of {len(found)} pairs of model and environment, the standard record " + (
        "; ".join(parts) + "."
    )


def decomposition(inputs: ReportInputs, study: Study) -> Values | None:
    whole = len(cases(inputs, study)) > FEW

    def say(study: Study, model: str, environment: str) -> list[Sentence]:
        return verdict_of(inputs, study, model, environment) if whole else []

    return _if_any(
        said=said(inputs, study, say, share_of_items, right_action),
        tables=inputs.showing("gain", "shares", "controls"),
    )


def remedies(inputs: ReportInputs, study: Study) -> Values | None:
    """Which other ways to write the record remove the effect, where there is one."""

    def say(study: Study, model: str, environment: str) -> list[Sentence]:
        if effect(study, model, environment) is not Reading.BELOW:
            return []
        return rewrites(study, model, environment)

    return _if_any(
        said=said(inputs, study, say),
        tables=inputs.showing("records", "ladder"),
        tucked=inputs.showing("variants", "placebo", "padding", "overlap", "wordings"),
    )


def signmap(inputs: ReportInputs, study: Study) -> Values | None:
    tables = inputs.showing("signmap")
    if not tables and "signmap" not in inputs.figures:
        return None
    return {"tables": tables, "tucked": inputs.showing("deciles")}


def repetition(inputs: ReportInputs, study: Study) -> Values | None:
    return _if_any(
        said=said(inputs, study, forced_choice, decoding), tables=inputs.showing("repetition")
    )


def families(inputs: ReportInputs, study: Study) -> Values | None:
    if not study.by_group("G", "error_family"):
        return None
    return {
        "statement": families_statement(study, inputs.cards),
        "tables": inputs.showing("families", "G_operator"),
        "tucked": inputs.showing("operators", "G_step", "G_template"),
    }


def tokens(inputs: ReportInputs, study: Study) -> Values | None:
    return {} if "tokens" in inputs.figures else None


def rollouts(inputs: ReportInputs, study: Study) -> Values | None:
    """What models do when they act by themselves, where they did."""
    return _if_any(
        said=inputs.rollouts,
        tables=inputs.showing("rollouts"),
        tucked=inputs.showing("rollouts_more"),
    )


def replication(inputs: ReportInputs, study: Study) -> Values | None:
    return _if_any(
        claims=inputs.claims,
        tables=inputs.showing("replication"),
        tucked=inputs.showing("published"),
    )


def sizes(inputs: ReportInputs, study: Study) -> Values | None:
    """The effect against the size of the model, where there are models of several sizes."""
    if not inputs.trends:
        return None
    return {"trends": inputs.trends, "tucked": inputs.showing("scaling")}


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
        "checks": of_frame("checks", "Stored scores repeated by the plain loop.", checks),
        "steps": of_frame("steps", "Time and memory of each kind of job.", inputs.steps),
        "tables": inputs.showing("environments", "conditions", "holm"),
        "versions": inputs.versions,
        "config": inputs.config,
    }


def numbers(inputs: ReportInputs, study: Study) -> Values:
    """Every measure over all items."""
    rows = []
    for model, environment, _ in cases(inputs, study):
        for name in study.measures(model, environment):
            cell = study.get(model, environment, name)
            if cell is not None:
                rows.append(_measure_row(cell, label(model, inputs.cards[model])))
    table = Table(
        "estimates",
        "Every measure over all items.",
        ("model", "environment", "measure", "mean", "interval", "n", "tasks", "unit", "status"),
        tuple(rows),
        inputs.estimates,
    )
    return {"table": table, "source": inputs.source}


def _measure_row(cell: Cell, name: str) -> tuple[Entry, ...]:
    mean = Entry(format_value(cell.mean, cell.measure), cell.mean)
    return (
        Entry(name),
        Entry(cell.environment),
        Entry(cell.measure, code=True),
        mean,
        Entry(format_interval(cell)),
        Entry(str(cell.n), cell.n),
        Entry(str(cell.clusters), cell.clusters),
        Entry(find(cell.measure).unit),
        Entry(cell.status),
    )


def _if_any(**values: Any) -> Values | None:
    return values if any(values.values()) else None


SECTIONS: tuple[Section, ...] = (
    Section("finding", "The finding", finding),
    Section("decomposition", "What the record does, taken apart", decomposition),
    Section("remedies", "Which rewrite removes it", remedies),
    Section("signmap", "Where the sign comes from", signmap),
    Section("repetition", "Does it repeat the call?", repetition),
    Section("families", "By kind of error", families),
    Section("sizes", "Against the size of the model", sizes),
    Section("tokens", "Which tokens gain", tokens),
    Section("rollouts", "When the model acts by itself", rollouts),
    Section("replication", "Beside the published study", replication),
    Section("items", "Three items, as the model saw them", items),
    Section("numbers", "All numbers", numbers),
    Section("methods", "How this was made", methods),
)
