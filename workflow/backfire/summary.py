"""One model's verdict and numbers, for a file and for the terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from backfire.cells import Cell, Reading, Study, format_interval, format_value, read
from backfire.conditions import CONDITIONS, CORE
from backfire.measures import find, measures_for
from backfire.remedies import ranked, rewrites
from backfire.verdict import (
    SHORT,
    Sentence,
    cautions,
    decoding,
    effect,
    forced_choice,
    headline,
    markdown,
    per_token,
    plain,
    right_action,
    share_of_items,
)

ESTIMAND = (
    "Each mean is over a designed mix of failing calls, items weighing the same: the mix "
    "says how a model answers to such failures, not how often they occur in the field."
)


def label(name: str, card: Mapping[str, Any]) -> str:
    """How a model is named wherever a number stands: its name and its weights."""
    return f"{name} ({card['weights']})"


def findings(study: Study, model: str, environment: str, name: str) -> list[Sentence]:
    """Everything that is said of a model on one environment, the headline first."""
    backfires = effect(study, model, environment) is Reading.BELOW
    return [
        *headline(study, model, environment, name),
        *per_token(study, model, environment),
        *share_of_items(study, model, environment),
        *forced_choice(study, model, environment),
        *decoding(study, model, environment),
        *right_action(study, model, environment),
        *(rewrites(study, model, environment) if backfires else []),
        *cautions(study, model, environment),
    ]


def summary(study: Study, model: str, card: Mapping[str, Any], tables: Iterable[str] = ()) -> str:
    """`results/models/{model}/summary.md`: the verdict in words, then the numbers.

    Args:
        card: what identifies the model, as made by `models.card`.
        tables: further tables as Markdown, of this model alone, each under its own heading.
    """
    name = label(model, card)
    lines = [f"# {escape(name)}", ""]
    for environment in study.environments(model):
        verdict = SHORT[effect(study, model, environment)]
        lines += [f"## {escape(environment)}: the standard record {verdict}", ""]
        for sentence in findings(study, model, environment, name):
            lines += [f"- {markdown(sentence)}"]
        lines += ["", *record_table(study, model, environment)]
        lines += [*measure_table(study, model, environment), ""]
        for dimension in ("error_family", "operator"):
            lines += group_table(study, model, environment, dimension)
    for table in tables:
        lines += [table.strip(), ""]
    lines += ["## How to read this", "", ESTIMAND, "", *_identity(card)]
    return "\n".join(lines) + "\n"


def escape(text: str) -> str:
    """Text that Markdown shows as it is, also within a table's cell."""
    return "".join(f"\\{c}" if c in r"\`*_{}[]<>#|" else c for c in " ".join(text.split()))


def measure_table(study: Study, model: str, environment: str) -> list[str]:
    """The main study's measures over all items as the lines of a Markdown table."""
    lines = [
        "| measure | mean | interval | n | tasks | unit | definition |",
        "|---|--:|:-:|--:|--:|---|---|",
    ]
    declared = measures_for(CONDITIONS)
    for name in study.measures(model, environment):
        cell, measure = study.get(model, environment, name), declared[name]
        if cell is None or not set(measure.conditions) <= set(CORE):
            continue
        lines.append(
            f"| `{name}` | {emphasised(cell)} | {format_interval(cell)} | {cell.n} "
            f"| {cell.clusters} | {measure.unit} | {escape(measure.formula)} |"
        )
    return lines


def record_table(study: Study, model: str, environment: str) -> list[str]:
    """Every way to write the record, the best first; no lines where one alone was scored."""
    names = [*ranked(study, model, environment), "fail"]
    if len(names) < 3:
        return []
    lines = [
        "| record | writes | G, nats | interval | effect removed | tokens | n |",
        "|---|---|--:|:-:|--:|--:|--:|",
    ]
    for name in names:
        gain = study.get(model, environment, "G" if name == "fail" else f"G_{name}")
        if gain is None:
            continue
        removed, tokens = (
            study.get(model, environment, measure)
            for measure in (f"{name}_removed", f"tokens_{name}")
        )
        lines.append(
            f"| `{name}` | {escape(CONDITIONS[name].summary)} | {emphasised(gain)} "
            f"| {format_interval(gain)} | {_mean(removed)} | {_mean(tokens)} | {gain.n} |"
        )
    lines += [
        "",
        "What another record changes is taken on the items that have both. The share removed is "
        "blank where G has a baseline of its own, written in that record's way.",
        "",
    ]
    return lines


def _mean(cell: Cell | None) -> str:
    return "—" if cell is None else format_value(cell.mean, cell.measure)


def group_table(study: Study, model: str, environment: str, dimension: str) -> list[str]:
    """G by the values of a dimension, most negative first; no lines where items have none."""
    groups = [
        (cell.mean, value, cell)
        for value, cell in study.by_group("G", dimension)
        if (cell.model, cell.environment) == (model, environment)
    ]
    if not groups:
        return []
    lines = [f"| {dimension.replace('_', ' ')} | G, nats | interval | n | tasks |"]
    lines.append("|---|--:|:-:|--:|--:|")
    for _, value, cell in sorted(groups):
        lines.append(
            f"| {escape(value)} | {emphasised(cell)} | {format_interval(cell)} | {cell.n} "
            f"| {cell.clusters} |"
        )
    return [*lines, ""]


def emphasised(cell: Cell) -> str:
    """The mean, bold where its interval excludes zero and the measure could have either sign."""
    text = format_value(cell.mean, cell.measure)
    clear = read(cell) in (Reading.ABOVE, Reading.BELOW)
    return f"**{text}**" if clear and find(cell.measure).signed else text


def _identity(card: Mapping[str, Any]) -> list[str]:
    chat = card["chat"]
    revision = f" at revision `{card['revision']}`" if card.get("revision") else ""
    return [
        f"Source `{card['source']}`{revision}, {card['weights']}, computed in {card['dtype']}; "
        f"fingerprint `{card['fingerprint'][:16]}`, "
        f"chat template `{chat['template_sha256'][:16]}`."
    ]


def terminal(
    study: Study, cards: Mapping[str, Mapping[str, Any]], closing: Sequence[str] = ()
) -> str:
    """What `make` prints at its end: each model's verdict on each environment, then `closing`."""
    blocks = []
    for model, card in cards.items():
        for environment in study.environments(model):
            name = label(model, card)
            verdict = SHORT[effect(study, model, environment)]
            blocks.append(f"{name} on {environment}: the standard record {verdict}")
            blocks += [
                textwrap.fill(plain(sentence), 88, initial_indent="  - ", subsequent_indent="    ")
                for sentence in findings(study, model, environment, name)
            ]
            blocks.append("")
    return "\n".join([*blocks, *closing]) + "\n"
