"""What is shown of rollouts: tables counted by hand, own failures, sentences, and no stale file."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import fakes
import numpy as np
import pandas as pd
import pytest

from backfire.items import Item, to_table
from backfire.measures import MEASURE_SCHEMA
from backfire.own_comparison import (
    at_one_baseline,
    by_family,
    compare,
    prediction_slopes,
    predictions,
)
from backfire.rollout_metrics import OUTCOME_SCHEMA
from backfire.rollout_page import Page
from backfire.rollout_results import outcomes, read_steps
from backfire.rollout_verdict import places
from backfire.rollouts import STEP_SCHEMA
from backfire.storage import write_frame, write_json, write_table
from backfire.tabular import Table
from backfire.verdict import Number, plain

OUTLINE = {
    "models": ["m"],
    "rollouts": {
        "toolshed": {
            "tasks": 4,
            "steps": 3,
            "harnesses": ["verbatim", "drop"],
            "demonstrations": {"solved": 3},
            "temperature": 0.7,
            "samples": 0,
            "branches": {"samples": 0, "attempts": 2},
        }
    },
}
MADE = {
    "not applied": {},
    "generated_tokens": 40,
    "seconds": 2.0,
    "tokens_per_second": 20.0,
    "near_ties": 0,
}

# Task -> (action, ok) of each turn; ! is a step that solves, finish() ends.
VERBATIM = {
    "t1": [("x()", False), ("x()", False), ("x()", False)],  # a loop
    "t2": [("y()!", True)],
    "t3": [("x()", False), ("X()", False), ("y()!", True)],
    "t4": [("x()", False), ("finish()", True)],
}
DROP = VERBATIM | {"t3": [("x()", False), ("x()", False), ("x()", False)]}
BRANCHES = {
    "verbatim": {"t1": [("x()", False), ("x()", False)], "t3": [("X()", False), ("y()!", True)],
                 "t4": [("finish()", True)]},
    "drop": {"t1": [("x()", False), ("x()", False)], "t3": [("y()!", True)],
             "t4": [("z()", True), ("z()", True)]},
}  # fmt: skip


def steps(turns: dict[str, list[tuple[str, bool]]]) -> pd.DataFrame:
    rows = []
    for task, own in turns.items():
        for number, (action, ok) in enumerate(own, start=1):
            solved, finished = action.endswith("!"), action == "finish()"
            why = "solved" if solved else "finished" if finished else "steps"
            rows.append(
                {
                    "task_id": task,
                    "template": None,
                    "step": number,
                    "text": action,
                    "action": action,
                    "canonical": action.lower(),
                    "observation": "OK" if ok else "ERROR",
                    "ok": ok,
                    "solved": solved,
                    "finished": finished,
                    "readable": True,
                    "tool": "x",
                    "error_family": None if ok else "unknown_tool",
                    "ending": "stop",
                    "prompt_tokens": 100 * number,
                    "pushed_tokens": 10,
                    "generated_tokens": 4,
                    "near_ties": 0,
                    "prompt_sha256": "",
                    "stop": why if number == len(own) else None,
                }
            )
    return pd.DataFrame(rows)


def own_failures(strength: float) -> tuple[list[Item], pd.DataFrame]:
    """Fake items as if greedy decoding had made the first of each task, a sample the second."""
    names = {
        item.item_id: f"{item.task_id}.{('greedy', 'seed1')[number % 2]}"
        for number, item in enumerate(fakes.items())
    }
    items = [replace(item, item_id=names[item.item_id]) for item in fakes.items()]
    measures = fakes.measures(strength=strength, seed=1)
    return items, measures.assign(item_id=measures["item_id"].map(names))


@pytest.fixture
def page(tmp_path: Path) -> Page:
    for study, by_harness in (
        ("rollouts", {"verbatim": VERBATIM, "drop": DROP}),
        ("branches", BRANCHES),
    ):
        for harness, turns in by_harness.items():
            path = tmp_path / study / "m/toolshed" / harness / "greedy.parquet"
            write_frame(path, steps(turns), STEP_SCHEMA, MADE)
    folders = [tmp_path / study / "m/toolshed" for study in ("rollouts", "branches")]
    read = [read_steps(sorted(folder.glob("*/*.parquet"))) for folder in folders]
    found = outcomes(read[0], read[1], 2, "m", "toolshed", fakes.STATISTICS)
    write_frame(tmp_path / "outcomes/m/toolshed.parquet", found, OUTCOME_SCHEMA)
    items, measures = own_failures(-0.5)
    write_table(tmp_path / "own_failures/m/toolshed/items.parquet", to_table(items))
    write_frame(tmp_path / "own_failures/m/toolshed/measures.parquet", measures, MEASURE_SCHEMA)
    write_frame(tmp_path / "measures/m/toolshed.parquet", fakes.measures(), MEASURE_SCHEMA)
    write_json(tmp_path / "models/m/model.json", fakes.CARD)
    return Page(tmp_path, OUTLINE, [("m", "toolshed")], fakes.STATISTICS)


def cells(table: Table, harness: str) -> dict[str, float]:
    """The numbers of a harness's only row, by column."""
    [row] = [row for row in table.rows if harness in [entry.text for entry in row]]
    return {name: entry.value for name, entry in zip(table.columns, row, strict=True)}


def test_tables_hold_what_a_hand_counts(page: Page) -> None:
    tables = {table.name: table for table in page.tables}
    row = cells(tables["table8_toolshed"], "verbatim")
    assert row["success"] == 2 / 4
    assert row["loop"] == 1 / 4
    assert row["exact repeat rate"] == pytest.approx(2 / 6)
    assert row["canonical repeat rate"] == pytest.approx(3 / 6)
    assert row["repeats per rollout"] == pytest.approx((2 / 3 + 0 + 0) / 3)
    assert row["repeats per opportunity"] == pytest.approx(2 / 5)
    assert row["without failure"] == 1 / 4
    dropped = cells(tables["table8_toolshed"], "drop")
    assert (dropped["success"], dropped["loop"]) == (1 / 4, 2 / 4)
    contrast = cells(tables["table8_contrasts_toolshed"], "drop")
    assert contrast["success"] == pytest.approx(-1 / 4)
    assert contrast["exact repeat rate"] == pytest.approx(4 / 7 - 2 / 6)
    costs = cells(tables["table9_toolshed"], "verbatim")
    assert costs["steps"] == 9 / 4
    assert costs["generated tokens"] == 36 / 4
    assert costs["prompt tokens"] == (600 + 100 + 600 + 300) / 4
    assert costs["context tokens per step"] == pytest.approx(1600 / 9)
    assert cells(tables["rollout_faults_toolshed"], "verbatim")["false success"] == 1 / 4
    branch = cells(tables["branches_toolshed"], "verbatim")
    assert (branch["repeat"], branch["canonical repeat"]) == (1 / 3, 2 / 3)
    assert (branch["valid"], branch["finish"]) == (0, 1 / 3)
    assert branch["repeat within 2"] == 1 / 3
    assert (branch["success within 1"], branch["success within 2"]) == (0, 1 / 3)
    assert cells(tables["branches_toolshed"], "drop")["valid"] == 2 / 3
    assert cells(tables["branches_contrasts_toolshed"], "drop")["valid"] == pytest.approx(2 / 3)
    assert cells(tables["branches_contrasts_toolshed"], "drop")["finish"] == pytest.approx(-1 / 3)


def test_what_the_configuration_does_not_name_is_not_shown(page: Page) -> None:
    for stale in ("abstract/greedy", "verbatim/seed7"):
        path = page.folder / f"rollouts/m/toolshed/{stale}.parquet"
        write_frame(path, steps(VERBATIM), STEP_SCHEMA, MADE)
    assert set(page.steps["m", "toolshed"]["harness"]) == {"verbatim", "drop"}
    assert set(page.steps["m", "toolshed"]["decoding"]) == {"greedy"}
    [speed] = [table for table in page.tables if table.name == "rollout_speed"]
    assert len(speed.rows) == 2
    assert "abstract" not in page.text().partition("# Trajectories")[2]


def test_sentences_say_what_the_intervals_allow(page: Page) -> None:
    [(title, sentences)] = page.said()
    text = " ".join(map(plain, sentences))
    assert title == "m (4-bit Q4_1 weights) on toolshed"
    assert "solved: 3" in text
    assert "verbatim writes the failed action again in 33 %" in text
    assert "Of whole rollouts, greedily, verbatim solves 50 %" in text
    again = next(plain(one) for one in sentences if "writes the failed action" in plain(one))
    assert "drop" not in again, "under greedy decoding it repeats by arithmetic"
    assert "they become" not in text
    assert "decoding become less likely after the record, as moves in games do" in text
    held = places(page.tables, {label: model for model, label in page.labels.items()})
    numbers = [part for one in sentences for part in one if isinstance(part, Number)]
    assert len(numbers) > 10
    for one in numbers:
        assert (one.model, one.environment, one.group, one.measure) in held, one


def test_own_failures_stand_beside_perturbed_ones_at_one_baseline() -> None:
    """Calls with the same baseline of which one kind's G lies five nats above the other's."""
    rng = np.random.default_rng(0)

    def made(name: str, low: float, high: float, above: float, count: int) -> pd.DataFrame:
        baseline = rng.uniform(low, high, count)
        gains = 0.8 * baseline - 1 + above + rng.normal(0, 0.5, count)
        rows = []
        for number, (before, gain) in enumerate(zip(baseline, gains, strict=True)):
            shared = {"item_id": f"{name}{number}.greedy", "task_id": f"{name}{number // 2}"}
            rows.append({**shared, "measure": "logprob_pre", "value": before})
            rows.append({**shared, "measure": "G", "value": gain})
        empty = dict.fromkeys(("template", "step", "operator", "error_family"))
        return pd.DataFrame(rows).assign(**empty)

    own, perturbed = made("own", -12, -1, 5.0, 30), made("item", -40, -6, 0.0, 80)
    found = at_one_baseline(own, perturbed, fakes.STATISTICS)
    assert found.low < 5.0 < found.high and found.high - found.low < 2
    assert found.value == pytest.approx(5.0, abs=0.6)
    assert -12.1 < found.ends[0] < -11 and -7 < found.ends[1] < -5.9
    assert found.n_own < 30 and found.n_perturbed < 80
    shift = np.subtract(found.lines["own"], found.lines["perturbed"])
    assert shift == pytest.approx([found.value] * 2)
    apart = at_one_baseline(own, made("far", -90, -60, 0.0, 20), fakes.STATISTICS)
    assert np.isnan(apart.value) and apart.status.startswith("no interval")
    rows = compare(own, perturbed, fakes.STATISTICS, "e").set_index(["failures", "measure"])
    assert list(rows.loc[("own, greedy", "G"), ["n", "n_clusters"]]) == [30, 15]
    assert rows.loc[("own, greedy", "G"), "ci_low"] > rows.loc[("perturbed", "G"), "ci_high"]


def items_of(families: Sequence[str]) -> list[Item]:
    one = fakes.items()[0]
    return [
        replace(one, item_id=f"t{number}.greedy", task_id=f"t{number}", error_family=family)
        for number, family in enumerate(families)
    ]


def gains(values: dict[str, tuple[str, float]]) -> pd.DataFrame:
    rows: list[dict[str, Any]] = [
        {"item_id": f"{task}-p", "measure": "G", "value": value, "task_id": task,
         "error_family": family}
        for task, (family, value) in values.items()
    ]  # fmt: skip
    return pd.DataFrame(rows)


def test_families_are_predicted_from_other_tasks() -> None:
    own = items_of(["a", "a", "b", "c"])
    repeated = {"t0.greedy": 1.0, "t1.greedy": 0.0, "t2.greedy": 0.0, "t3.greedy": 0.0}
    perturbed = gains(
        {"t0": ("a", -50.0), "p1": ("a", -8.0), "p2": ("a", -10.0), "p3": ("b", -1.0),
         "t3": ("c", -7.0)}
    )  # fmt: skip
    found = by_family(own, repeated, perturbed, fakes.STATISTICS).set_index("error_family")
    assert list(found.index) == ["a", "b"], "of family c there is no other task"
    assert (found.loc["a", "repeat_mean"], found.loc["a", "repeat_n"]) == (0.5, 2)
    assert (found.loc["a", "G_mean"], found.loc["a", "G_n"]) == (-9.0, 2)
    assert found.loc["b", "repeat_status"].startswith("0/1: exact one-sided bound")
    each = predictions(own, repeated, perturbed).set_index("item_id")
    assert each.loc["t0.greedy", "G"] == -9.0
    assert each.loc["t1.greedy", "G"] == pytest.approx(-68 / 3), "that task is another's here"
    slopes = prediction_slopes(each.reset_index(), fakes.STATISTICS).set_index("predictor")
    assert slopes.loc["G", "status"] == "undefined: fewer than three families"


def test_a_slope_is_that_of_least_squares() -> None:
    rng = np.random.default_rng(1)
    gain = np.repeat([-30.0, -20.0, -10.0, 0.0], 25)
    repeated = (rng.uniform(size=100) < 0.1 - 0.02 * gain).astype(float)
    frame = pd.DataFrame({"task_id": np.arange(100) // 2, "repeated": repeated, "G": gain})
    frame = frame.assign(error_family=gain.astype(str), greedy_repeat_fail=np.nan)
    found = prediction_slopes(frame, fakes.STATISTICS).set_index("predictor").loc["G"]
    assert found["slope"] == pytest.approx(np.polyfit(gain, repeated, 1)[0])
    assert found["t_low"] < -0.02 < found["t_high"] < 0
    assert (found["n"], found["n_clusters"], found["n_families"]) == (100, 50, 4)


def test_the_page_and_the_figures(page: Page) -> None:
    figures = page.figures()
    left, right = figures["own_failures"].axes
    assert len(left.lines) == 7, "two clouds, their lines with a rim, and zero"
    assert len(right.containers) == len(page.families)
    text = page.text()
    assert re.search(r"\| 2 \| ↻ x\(\) \|", text), "a repeat is marked"
    assert "| 3 | ↻ x() (steps) |" in text and "first three in the order" in text
