"""Measures, tables, figure and sentences of the ways to write the record."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import synthetic

from backfire import catalogue
from backfire.cells import Study
from backfire.conditions import CONDITIONS, CORE, LADDER, WORDINGS
from backfire.estimates import Statistics, estimate
from backfire.forest import forest, rows
from backfire.measures import MEASURE_SCHEMA, declared, measure
from backfire.remedies import ranked, rewrite, rewrites
from backfire.results import Results
from backfire.spread import by_overlap, wordings
from backfire.storage import write_frame, write_json
from backfire.variant_tables import ladder, records
from backfire.verdict import plain

STATISTICS = Statistics(seed=1, resamples=200)
SCORED = [name for name in CONDITIONS if name not in ("fail_native", "pre_native")]
LABELS = {"m": "m (float32 weights)"}
# log P(a | condition): the standard record is at -10 and no attempt at -30.
LEVEL = {"pre": -30.0, "pre_instruct": -29.0, "pre_json": -30.0, "pre_tool_role": -30.0}
LEVEL |= {"abstract": -29.9, "fail_twice": -7.0, "fail_terse": -10.1, "fail_unrelated": -29.0}
TOKENS = {"pre": 200, "fail": 230, "fail_twice": 260, "neut_pad": 231, "pre_instruct": 210}


@pytest.fixture(scope="module")
def scores() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    made = synthetic.scores(synthetic.items(12), SCORED)
    made["logprob"] = [LEVEL.get(name, -10.0) for name in made["condition"]]
    made["logprob"] += rng.normal(0, 0.05, len(made))
    made["context_tokens"] = [TOKENS.get(name, 220) for name in made["condition"]]
    made["overlap"] = rng.choice([0.2, 0.4, 0.6], len(made))
    gold = made[(made["candidate"] == "failed") & made["condition"].isin(LADDER)]
    gold = gold[~gold["condition"].isin(made.loc[made["candidate"] == "gold", "condition"])]
    return pd.concat([made, gold.assign(candidate="gold", logprob=-20.0)], ignore_index=True)


@pytest.fixture(scope="module")
def measures(scores: pd.DataFrame) -> pd.DataFrame:
    return measure(scores, synthetic.items(12))


@pytest.fixture(scope="module")
def estimates(measures: pd.DataFrame) -> pd.DataFrame:
    return estimate(measures, "m", "toolshed", STATISTICS)


@pytest.fixture(scope="module")
def study(estimates: pd.DataFrame) -> Study:
    return Study(estimates, margin=0.05)


def mean(study: Study, name: str) -> float:
    cell = study.get("m", "toolshed", name)
    assert cell is not None, name
    return cell.mean


def test_a_gain_is_against_the_conditions_own_baseline(study: Study) -> None:
    assert mean(study, "G_fail_instruct") == pytest.approx(-19, abs=0.2)
    assert mean(study, "G_fail_twice") == pytest.approx(-23, abs=0.2)
    assert mean(study, "delta_fail_twice") == pytest.approx(3, abs=0.2)
    assert mean(study, "tokens_fail_twice") == pytest.approx(60)
    assert mean(study, "tokens_fail_instruct") == pytest.approx(10)


def test_a_call_in_another_notation_is_compared_with_its_own_alone() -> None:
    gain = declared("G_fail_native")
    assert gain is not None and gain.conditions == ("pre_native", "fail_native")
    for name in ("delta_fail_native", "delta_pre_native", "G_pre_native", "fail_native_removed"):
        assert declared(name) is None, name
    assert declared("fail_instruct_removed") is None  # its G has another baseline


def test_the_controls_measure_what_they_name(study: Study) -> None:
    assert mean(study, "copy_unrelated") == pytest.approx(20, abs=0.2)
    total = mean(study, "copy_unrelated") + mean(study, "copy_specific")
    assert total == pytest.approx(mean(study, "copy"))
    assert mean(study, "pad_mismatch") == pytest.approx(1)
    assert mean(study, "pad_matched") == 1
    assert mean(study, "failed_over_gold_mask_value") == pytest.approx(10, abs=0.2)


def test_only_the_core_is_split_by_group(estimates: pd.DataFrame) -> None:
    split = set(estimates.loc[estimates["group"] != "all", "measure"])
    assert {"G", "copy", "G_abstract"} <= split
    assert not {name for name in split if "twice" in name or "_w1" in name}


def test_a_rewrite_says_what_it_leaves_and_what_it_costs(study: Study) -> None:
    worse = plain(rewrite(study, "m", "toolshed", "fail_twice"))
    assert worse.startswith("fail_twice makes it worse, by ")
    assert "nats on the same items: G is −2" in worse
    assert worse.endswith("; the context is 30.0 tokens longer.")
    assert "removes it" in plain(rewrite(study, "m", "toolshed", "abstract"))
    assert rewrite(study, "m", "toolshed", "fail_native") == ()


def test_doing_nothing_is_said_inside_the_margin_alone(estimates: pd.DataFrame) -> None:
    for margin, said in ((0.05, "does nothing to it, to within the margin"), (None, "")):
        sentence = plain(rewrite(Study(estimates, margin), "m", "toolshed", "fail_terse"))
        assert ("does nothing" in sentence) == bool(said)
        assert said in sentence


def test_rewrites_are_ranked_by_what_they_leave(study: Study) -> None:
    order = ranked(study, "m", "toolshed")
    assert order[0] == "abstract"
    assert order[-1] == "fail_twice"
    assert not {"neut", "fail_other", "pre_instruct", "fail_w1"} & set(order)
    assert len(rewrites(study, "m", "toolshed")) == len(order)


def test_the_spread_over_wordings_is_over_means_of_the_same_items(scores: pd.DataFrame) -> None:
    moved = scores.copy()
    moved.loc[moved["condition"] == "fail_w3", "logprob"] -= 4
    gone = (moved["condition"] == "fail_w5") & (moved["item_id"] == moved["item_id"].iloc[0])
    found = wordings(measure(moved[~gone], synthetic.items(12)), "m", "toolshed", STATISTICS)
    fail = found.set_index("condition").loc["fail"]
    everyone = found.set_index("condition").loc["neut"]
    assert fail["n"] == everyone["n"] - 1
    assert fail["wordings"] == 6
    assert fail["highest"] - fail["lowest"] == pytest.approx(4, abs=0.1)
    assert fail["lowest"] <= fail["mean"] <= fail["highest"]
    assert everyone["sd"] < 0.1 < fail["sd"]


def test_sem_by_overlap_covers_every_item_once(measures: pd.DataFrame) -> None:
    found = by_overlap(measures, "m", "toolshed", STATISTICS)
    assert found["overlap_low"].tolist() == sorted(set(found["overlap_low"]))
    assert (found["overlap_high"].shift().dropna() < found["overlap_low"].iloc[1:]).all()
    assert found["n"].sum() == (measures["measure"] == "sem").sum()
    without = measures[measures["measure"] != "overlap_fail"]
    assert by_overlap(without, "m", "toolshed", STATISTICS).empty


def test_the_tables_have_a_row_for_each_way(estimates: pd.DataFrame) -> None:
    table = records(estimates, SCORED, "toolshed", "toolshed", LABELS)
    names = [row[1].text for row in table.rows]
    assert names[0] == "fail"
    assert {"abstract", "fail_twice", "fail_instruct"} <= set(names)
    assert "neut" not in names
    rungs = ladder(estimates, SCORED, "toolshed", "toolshed", LABELS)
    assert [row[1].text for row in rungs.rows] == list(LADDER)


def test_rows_that_are_compared_are_of_the_same_items(scores: pd.DataFrame, tmp_path: Path) -> None:
    """An item without a value to mask leaves the ladder; an item of the core alone, the records."""
    first, second = sorted(scores["item_id"].unique())[:2]
    gone = (scores["item_id"] == first) & (scores["condition"] == "mask_value")
    gone |= (scores["item_id"] == second) & ~scores["condition"].isin(CORE)
    items = synthetic.items(12)
    write_frame(
        tmp_path / "measures/m/toolshed.parquet", measure(scores[~gone], items), MEASURE_SCHEMA
    )
    write_json(tmp_path / "models/m/model.json", {"weights": "float32 weights"})
    outline = {
        "models": ["m"],
        "cells": [["m", "toolshed"]],
        "kinds": {"toolshed": "toolshed"},
        "probes": {"core": list(CORE), "variants": [n for n in SCORED if n not in CORE]},
        "statistics": {"seed": 1, "resamples": 200, "confidence": 0.95},
    }
    results = Results(tmp_path, outline)
    rungs, ways = (
        catalogue.TABLES[name].build(results, "toolshed", "toolshed")  # type: ignore[union-attr,call-arg]
        for name in ("ladder", "records")
    )
    assert set(rungs.data["n"]) == {len(items) - 2}
    assert [row[1].text for row in rungs.rows] == list(LADDER)
    counts = ways.data.set_index("measure")["n"]
    assert counts["G"] == counts["G_abstract"] == counts["G_fail_twice"] == len(items) - 1
    assert counts["G_mask_value"] == len(items) - 2


def test_a_study_has_the_tables_that_its_conditions_allow() -> None:
    def stems(*more: str) -> set[str]:
        outline: dict[str, Any] = {
            "cells": [["m", "toolshed"], ["m", "coderepair"]],
            "kinds": {"toolshed": "toolshed", "coderepair": "coderepair"},
            "probes": {"core": list(CORE), "more": list(more)},
            "shards": {"core": {"toolshed": 1, "coderepair": 1}, "more": {"toolshed": 1}},
            "published_as": {},
        }
        return set(catalogue.table_stems(outline))

    assert stems("fail_twice") - stems() == {"table7_toolshed", "records_toolshed"}
    assert "wordings_toolshed" in stems(*WORDINGS["fail"])
    assert "padding_toolshed" in stems("neut_pad")


def test_the_forest_sets_message_and_form_apart(
    estimates: pd.DataFrame, study: Study, tmp_path: Path
) -> None:
    labels = [row.label for row in rows(study)]
    message, form = labels.index("the message changes"), labels.index("the call's form changes")
    assert message < labels.index("fail_terse") < form < labels.index("fail_twice")
    assert not {name for names in WORDINGS.values() for name in names} & set(labels)
    drawn = forest(estimates, LABELS)
    (ax,) = drawn.axes
    assert [tick.get_text() for tick in ax.get_yticklabels()] == labels
    at = labels.index("fail_twice")
    points = [line for line in ax.lines if list(line.get_ydata()) == [at]]
    assert any(list(p.get_xdata()) == [pytest.approx(mean(study, "G_fail_twice"))] for p in points)


def test_the_forest_has_a_panel_for_each_environment(estimates: pd.DataFrame) -> None:
    two = pd.concat([estimates, estimates.assign(environment="coderepair")])
    first, second = forest(two, LABELS).axes
    assert [first.get_title("left"), second.get_title("left")] == ["toolshed", "coderepair"]
    assert len(first.lines) == len(second.lines)
