"""Sentences on rollouts: what their intervals, and those of the branch study, allow one to say."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pandas as pd

from backfire.cells import Cell, Reading, read
from backfire.harnesses import GREEDY, HARNESSES, REFERENCE
from backfire.own_comparison import Difference
from backfire.tabular import Table
from backfire.verdict import Code, Number, Sentence, say

Place = tuple[str, ...]
"""Model, environment, group and measure of a number."""

LESS = f", less {REFERENCE}"


def group_of(row: Mapping[Any, Any]) -> str:
    """The group that an outcome, or an estimate of own failures, is of."""
    if "failures" in row:
        return f"{row['failures']} failures"
    less = LESS if row["contrast"] else ""
    return f"{row['study']}, {row['decoding']}, {row['harness']}{less}"


def _cell(row: Mapping[Any, Any]) -> Cell:
    mean, low, high = (math.nan if pd.isna(row[k]) else float(row[k])
                       for k in ("mean", "ci_low", "ci_high"))  # fmt: skip
    measure = row["measure"] if "measure" in row else row["metric"]
    return Cell(row["model"], row["environment"], group_of(row), measure, mean, low, high,
                int(row["n"]), int(row["n_clusters"]), row["status"])  # fmt: skip


def _by_group(rows: pd.DataFrame) -> dict[tuple[str, str], Cell]:
    cells = map(_cell, rows.to_dict("records"))
    return {(cell.group, cell.measure): cell for cell in cells}


def places(tables: Iterable[Table], names: Mapping[str, str]) -> dict[Place, str]:
    """The file that holds each number of the tables.

    Args:
        names: by a model's label, its name; a table may have either.
    """
    found: dict[Place, str] = {}
    for table in tables:
        columns = set(table.data.columns)
        if {"study", "harness", "metric"} <= columns or {"failures", "measure"} <= columns:
            for row in table.data.to_dict("records"):
                cell = _cell({**row, "model": names.get(row["model"], row["model"])})
                place = (cell.model, cell.environment, cell.group, cell.measure)
                found.setdefault(place, f"tables/{table.name}.csv")
    return found


class Outcomes:
    """Outcomes of one model on one environment, looked up cell by cell.

    Args:
        rows: of `rollout_metrics.OUTCOME_SCHEMA`; of all models and environments.
    """

    def __init__(self, rows: pd.DataFrame, model: str, environment: str) -> None:
        own = rows[(rows["model"] == model) & (rows["environment"] == environment)]
        own = own[own["mean"].notna()]
        self._cells = {
            (cell.group, cell.measure): cell for cell in map(_cell, own.to_dict("records"))
        }
        self.harnesses = list(dict.fromkeys(own["harness"]))
        self.decodings = {
            study: list(dict.fromkeys(part["decoding"])) for study, part in own.groupby("study")
        }
        self.attempts = sum(name.startswith("success_within_") for name in set(own["metric"]))

    def get(
        self, study: str, decoding: str, harness: str, metric: str, less: bool = False
    ) -> Cell | None:
        group = f"{study}, {decoding}, {harness}{LESS if less else ''}"
        return self._cells.get((group, metric))


def setting(entry: Mapping[str, Any], harnesses: Iterable[str]) -> Sentence:
    """How the rollouts were set up, from their entry in the config."""
    shown = entry["demonstrations"]
    if shown == "format":
        how = "a line of the system prompt shows a reply alone"
        code = Code("format")
    else:
        how = f"solved tasks of another world come before the goal, {shown['solved']} of them"
        code = Code(f"solved: {shown['solved']}")
    return say(
        "{t} tasks of up to {s} turns under {h} harnesses. As a demonstration, the same under "
        "all, {how} ({c}).",
        t=str(entry["tasks"]),
        s=str(entry["steps"]),
        h=str(len(list(harnesses))),
        how=how,
        c=code,
    )


def behaviour(outcomes: Outcomes) -> list[Sentence]:
    """The branch study first, which compares harnesses from the same state, then whole rollouts."""
    attempts = outcomes.attempts
    asked = [
        ("branches", "repeat", "Right after the same first failure, {how}, {v} writes the failed "
         "action again in {x} of {n} branches"),
        ("branches", f"repeat_within_{attempts}",
         f"Within {attempts} more turns, {{how}}, it writes some failed action again in {{x}} "
         "under {v}"),
        ("branches", "valid", "Its next action is a valid call, {how}, in {x} under {v}"),
        ("branches", "finish", "It gives up and says that it is done, {how}, in {x} under {v}"),
        ("branches", f"success_within_{attempts}",
         f"It gets to the goal within {attempts} more turns, {{how}}, in {{x}} under {{v}}"),
        ("rollouts", "success", "Of whole rollouts, {how}, {v} solves {x}"),
        ("rollouts", "loop", "It ends in a loop, {how}, in {x} under {v}"),
    ]  # fmt: skip
    return [
        sentence
        for study, metric, lead in asked
        for decoding in outcomes.decodings.get(study, [])
        if (sentence := _compared(outcomes, study, decoding, metric, lead))
    ]


def _compared(outcomes: Outcomes, study: str, decoding: str, metric: str, lead: str) -> Sentence:
    """The reference's value, then the harnesses that clearly differ from it, and the rest."""
    reference = outcomes.get(study, decoding, REFERENCE, metric)
    if reference is None:
        return ()
    how = "greedily" if decoding == GREEDY else "at temperature"
    parts: list[str | Number | Code] = [
        *say(lead, how=how, v=Code(REFERENCE), x="{x}", n=str(reference.n))
    ]
    at = parts.index("{x}")
    parts[at : at + 1] = [_value(reference), " (", _interval(reference), ")"]
    rest: dict[str, list[str]] = {"no clear difference": [], "too few to tell": []}
    for harness in outcomes.harnesses:
        if harness == REFERENCE or settled(harness, decoding, metric):
            continue
        change = outcomes.get(study, decoding, harness, metric, less=True)
        match read(change):
            case Reading.ABOVE | Reading.BELOW if change is not None:
                word = "more" if change.mean > 0 else "less"
                parts += [f"; {word} under ", Code(harness), ", by ", _value(change, points=True)]
                parts += [" (", _interval(change, points=True), ")"]
            case Reading.UNDEFINED:
                rest["too few to tell"].append(harness)
            case _:
                rest["no clear difference"].append(harness)
    for words, those in rest.items():
        for number, harness in enumerate(those):
            parts += [", " if number else f"; {words} under ", Code(harness)]
    return tuple(part for part in (*parts, ".") if part != "")


def settled(harness: str, decoding: str, metric: str) -> bool:
    """Whether a harness's value follows from its making, and tells nothing of the model.

    A ban leaves no exact repeat; a record that leaves no trace has greedy decoding write the same
    action again.
    """
    if not metric.startswith(("repeat", "loop")) or harness not in HARNESSES:
        return False
    one = HARNESSES[harness]
    return one.ban or (one.record == "pre" and decoding == GREEDY)


def _value(cell: Cell, points: bool = False) -> Number:
    value = abs(cell.mean) if points else cell.mean
    return Number(f"{100 * value:.0f}{' points' if points else ' %'}", *_place(cell))


def _interval(cell: Cell, points: bool = False) -> Number:
    if not cell.bounded:
        return Number(cell.status, *_place(cell))
    low, high = 100 * cell.low, 100 * cell.high
    if points and cell.mean < 0:
        low, high = -high, -low
    if "one-sided" in cell.status:
        side = f"at least {low:.0f}" if cell.mean == cell.high else f"at most {high:.0f}"
        return Number(f"{side} %", *_place(cell))
    return Number(f"{low:.0f} to {high:.0f}{'' if points else ' %'}", *_place(cell))


def _place(cell: Cell) -> tuple[str, str, str, str]:
    return cell.model, cell.environment, cell.measure, cell.group


def own(compared: pd.DataFrame, difference: Difference | None) -> list[Sentence]:
    """What the record does to calls that the model was about to make.

    Args:
        compared: rows of `own_comparison.compare` of one model and environment, with their names.
    """
    cells = _by_group(compared)
    found = []
    for failures, who in (
        (f"own, {GREEDY}", "calls that it was about to make, its own first failures under greedy "
         "decoding"),
        ("own, sampled", "its own first failures at temperature"),
    ):  # fmt: skip
        gain = cells.get((f"{failures} failures", "G"))
        if gain is None or math.isnan(gain.mean):
            continue
        what = {
            Reading.ABOVE: "{who} become less likely after the record, as moves in games do: G is "
            "{g} nats",
            Reading.BELOW: "{who} become likelier after the record, unlike moves in games: G is "
            "{g} nats",
        }.get(read(gain), "for {who} there is no clear change after the record: G is {g} nats")
        text = f"{what} over {{n}} of them."
        found.append(_capital(say(text, who=who, g=gain, n=str(gain.n))))
    if difference is not None and found:
        found.append(_at_baseline(difference))
    return found


def _capital(sentence: Sentence) -> Sentence:
    first, *rest = sentence
    if not first and rest:
        return _capital(tuple(rest))
    return (first[0].upper() + first[1:], *rest) if isinstance(first, str) else sentence


def _at_baseline(difference: Difference) -> Sentence:
    counts = {"o": str(difference.n_own), "p": str(difference.n_perturbed)}
    if math.isnan(difference.value):
        return say(
            "Too few of them ({o} own, {p} perturbed) are as improbable before the record as "
            "perturbed calls to compare the two at one baseline.",
            **counts,
        )
    value, low, high = (
        f"{x:+.1f}".replace("-", "−") for x in (difference.value, difference.low, difference.high)
    )
    clear = low[0] == high[0]
    return say(
        "At the same probability before the record, G of own failures differs from that of "
        "perturbed calls by {v} nats ({l} to {h}; {o} own, {p} perturbed)" + ("." if clear else
        ": no clear difference."),
        v=value, l=low, h=high, **counts,
    )  # fmt: skip


def predicted(slopes: pd.DataFrame) -> list[Sentence]:
    """Whether perturbed items of other tasks say which own failures are repeated.

    Args:
        slopes: rows of `own_comparison.prediction_slopes` of one model and environment.
    """
    return list(_predicted(slopes))


def _predicted(slopes: pd.DataFrame) -> Iterator[Sentence]:
    for row in slopes.to_dict("records"):
        name = Code(row["predictor"])
        if row["status"] != "ok":
            yield say("Whether {p} of perturbed items predicts repetition is {s}.", p=name,
                      s=str(row["status"]))  # fmt: skip
            continue
        slope, low, high = (
            f"{row[k]:+.3f}".replace("-", "−") for k in ("slope", "t_low", "t_high")
        )
        expected = row["predictor"] != "G"
        clear = row["t_low"] > 0 or row["t_high"] < 0
        holds = "no clear prediction"
        if clear:
            holds = "as the probe says" if (row["slope"] > 0) == expected else "against the probe"
        yield say(
            "Over {n} own failures in {f} error families, repetition in the next turn changes by "
            "{b} ({l} to {h}) for a unit of {p} of the family's perturbed items in other tasks: "
            "{holds}.",
            n=str(row["n"]), f=str(row["n_families"]), b=slope, l=low, h=high, p=name,
            holds=holds,
        )  # fmt: skip
