"""The tables that describe the study: environments, conditions, operators, measures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import pandas as pd

from backfire.conditions import CONDITIONS
from backfire.items import Item
from backfire.measures import measures_for
from backfire.tabular import Entry, Table

LONGEST_EXAMPLE = 160
"""Characters of an example that are printed; the CSV has them all."""


def environments(pools: Mapping[str, Sequence[Item]], published: pd.DataFrame) -> Table:
    """The pool of each environment in numbers, the published one beside it (Table 2).

    Args:
        pools: by environment, its pool of items.
        published: `environments.csv` of the published values.
    """
    rows = [
        {"environment": name, "source": "this study", **_count(pool)}
        for name, pool in pools.items()
    ]
    beside = published[published["environment"].isin(pools)].drop(columns="table")
    data = pd.concat([pd.DataFrame(rows), beside.assign(source="published")], ignore_index=True)
    data = data.sort_values("environment", kind="stable", ignore_index=True)
    heads = {
        "environment": "environment",
        "source": "source",
        "items": "items",
        "tasks": "tasks",
        "operators": "operators",
        "error_families": "error families",
        "mean_action_chars": "failed action, mean characters",
        "mean_observation_chars": "its observation, mean characters",
    }
    printed = tuple(
        tuple(
            Entry(value) if isinstance(value, str) else Entry(f"{value:.0f}", float(value))
            for value in row
        )
        for row in data[list(heads)].itertuples(index=False)
    )
    caption = "The pools of items (the paper's Table 2)."
    return Table("table2", caption, tuple(heads.values()), printed, data[list(heads)])


def _count(pool: Sequence[Item]) -> dict[str, float]:
    observations = [item.observations["fail"] for item in pool if "fail" in item.observations]
    return {
        "items": len(pool),
        "tasks": len({item.task_id for item in pool}),
        "operators": len({item.operator for item in pool} - {None}),
        "error_families": len({item.error_family for item in pool} - {None}),
        "mean_action_chars": _mean_length(item.failed_action for item in pool),
        "mean_observation_chars": _mean_length(observations),
    }


def _mean_length(texts: Iterable[str]) -> float:
    lengths = [len(text) for text in texts]
    return sum(lengths) / len(lengths) if lengths else float("nan")


def conditions(names: Iterable[str]) -> Table:
    """What each condition of the study writes (Table 10)."""
    data = pd.DataFrame(
        {"condition": name, "writes": CONDITIONS[name].summary} for name in dict.fromkeys(names)
    )
    rows = tuple(
        (Entry(row["condition"], code=True), Entry(row["writes"]))
        for row in data.to_dict("records")
    )
    caption = (
        "The conditions: how the failure is written into the transcript (the paper's Table 10)."
    )
    return Table("table10", caption, ("condition", "what it writes"), rows, data)


def operators(pools: Mapping[str, Sequence[Item]]) -> Table:
    """Each perturbation operator with the errors it meets and its shortest example (Table 11)."""
    found = []
    for environment, pool in pools.items():
        by_operator: dict[str, list[Item]] = {}
        for item in pool:
            if item.operator is not None:
                by_operator.setdefault(item.operator, []).append(item)
        for operator in sorted(by_operator):
            items = by_operator[operator]
            families = Counter(item.error_family for item in items if item.error_family)
            example = min(items, key=lambda item: (len(item.failed_action), item.item_id))
            found.append(
                {
                    "environment": environment,
                    "operator": operator,
                    "items": len(items),
                    "error_families": ", ".join(name for name, _ in families.most_common()),
                    "gold_action": example.gold_action,
                    "failed_action": example.failed_action,
                    "observation": example.observations.get("fail"),
                    "item_id": example.item_id,
                }
            )
    columns = ("environment", "operator", "items", "error_families")
    examples = ("gold_action", "failed_action", "observation")
    data = pd.DataFrame(found, columns=[*columns, *examples, "item_id"])
    rows = tuple(
        (
            Entry(row["environment"]),
            Entry(row["operator"], code=True),
            Entry(str(row["items"]), float(row["items"])),
            Entry(row["error_families"]),
            *(Entry(_shortened(row[name]), code=True) for name in examples),
        )
        for row in data.to_dict("records")
    )
    heads = (*(name.replace("_", " ") for name in columns), "right", "perturbed", "observed")
    caption = "The perturbation operators, one example each (the paper's Table 11)."
    note = "The example is the operator's item with the shortest failed action."
    return Table("table11", caption, heads, rows, data, (note,))


def measures(names: Iterable[str]) -> Table:
    """Every measure that the conditions allow, with its unit and definition."""
    data = pd.DataFrame(
        {
            "measure": measure.name,
            "unit": measure.unit,
            "definition": measure.formula,
            "either_sign": measure.signed,
        }
        for measure in measures_for(names).values()
    )
    rows = tuple(
        (Entry(row["measure"], code=True), Entry(row["unit"]), Entry(row["definition"]))
        for row in data.to_dict("records")
    )
    caption = "The measures; a is the failed action, P(a | c) its probability after condition c."
    return Table("measures", caption, ("measure", "unit", "definition"), rows, data)


def _shortened(text: str | None) -> str:
    if not isinstance(text, str):
        return ""
    return text if len(text) <= LONGEST_EXAMPLE else text[: LONGEST_EXAMPLE - 1] + "…"
