"""What is said of our numbers beside the published ones, and what is not."""

from __future__ import annotations

import math
from pathlib import Path

import pandas as pd
import pytest

from backfire.estimates import ESTIMATE_SCHEMA
from backfire.replication import compare, of_rollouts, published, unit_of
from backfire.replication_tables import claims, coverage, table
from backfire.tabular import markdown

PUBLISHED = Path(__file__).parents[1] / "resources" / "published"
LABELS = {"smol": "smol (4-bit Q4_1 weights)"}
AS = {"smol": "SmolLM2-135M"}
KINDS = {"toolshed": "toolshed"}


@pytest.fixture(scope="module")
def theirs() -> pd.DataFrame:
    return published(PUBLISHED)


def ours(measure: str, mean: float, low: float, high: float, **more: object) -> pd.DataFrame:
    row = dict.fromkeys(ESTIMATE_SCHEMA.names)
    row |= {"model": "smol", "environment": "toolshed", "group": "all", "n": 100, "n_clusters": 57}
    row |= {"measure": measure, "mean": mean, "ci_low": low, "ci_high": high, "status": "ok"}
    return pd.DataFrame([{**row, **more}])


def against(theirs: pd.DataFrame, estimates: pd.DataFrame, **margins: float) -> pd.Series:
    compared = compare(estimates, theirs, AS, KINDS, margins)
    (row,) = compared.to_dict("records")
    return pd.Series(row)


def test_published_rows_are_all_there(theirs):
    assert len(theirs) == 129 + 25 + 12 + 35
    assert theirs["mean"].notna().all()
    assert not theirs.duplicated(["environment", "model", "group", "measure"]).any()
    for name in theirs["measure"].unique():
        assert unit_of(name)


def test_rows_of_mixed_items_are_found(theirs):
    mixed = theirs[theirs["mixed"]]
    assert set(zip(mixed["table"], mixed["model"], strict=True)) == {
        (3, "Llama-3.2-1B"),
        (3, "Qwen3-0.6B"),
    }


def test_difference_and_its_interval(theirs):
    """Published G is -23.92 [-25.86, -22.09]; the distances to the limits add in quadrature."""
    row = against(theirs, ours("G", -21.0, -22.5, -19.0))
    assert row["difference"] == pytest.approx(2.92)
    assert row["difference_low"] == pytest.approx(2.92 - math.hypot(1.5, 1.83))
    assert row["difference_high"] == pytest.approx(2.92 + math.hypot(2.0, 1.94))


@pytest.mark.parametrize(
    ("measure", "mean", "low", "high", "sign"),
    [
        ("G", -20, -22, -18, "same"),
        ("G", 2, 1, 3, "opposite"),
        ("G", -2, -5, 1, "unclear"),
        ("polarity", -1, -2, -0.5, "same"),
        ("p_repeat_shift", 0.7, 0.6, 0.8, "same"),
        # A probability cannot be negative, so its sign says nothing.
        ("p_repeat_fail", 0.9, 0.8, 0.95, ""),
        ("G_negative", 0.98, 0.9, 1, ""),
    ],
)
def test_signs(theirs, measure, mean, low, high, sign):
    assert against(theirs, ours(measure, mean, low, high))["sign"] == sign


def test_an_uninformative_published_sign_is_not_compared(theirs):
    """Published polarity of Qwen3-0.6B is 0.47 [-0.41, 1.28]."""
    compared = compare(ours("polarity", 0.5, 0.1, 1), theirs, {"smol": "Qwen3-0.6B"}, KINDS, {})
    assert compared["sign"].to_list() == [""]


@pytest.mark.parametrize(
    ("mean", "low", "high", "agreement"),
    [
        (-23.9, -24.5, -23.3, "within"),
        (-18.0, -22.0, -14.0, "undecided"),
        (-5.0, -6.0, -4.0, "beyond"),
    ],
)
def test_agreement_within_the_margin(theirs, mean, low, high, agreement):
    row = against(theirs, ours("G", mean, low, high), nats=5.0)
    assert (row["margin"], row["agreement"]) == (5.0, agreement)


def test_a_margin_for_the_measure_goes_first(theirs):
    row = against(theirs, ours("G", -23.9, -24.5, -23.3), nats=5.0, G=0.1)
    assert (row["margin"], row["agreement"]) == (0.1, "undecided")


def test_without_a_margin_nothing_agrees(theirs):
    assert against(theirs, ours("G", -23.9, -24.5, -23.3))["agreement"] == ""


@pytest.mark.parametrize(("mean", "agreement"), [(0.0, "within"), (0.2, "beyond")])
def test_a_published_point_is_compared_by_value(theirs, mean, agreement):
    """Greedy repeats before the attempt: 0.000 [0.000, 0.000]."""
    row = against(theirs, ours("greedy_repeat_pre", mean, 0, 0.3), proportion=0.1)
    assert math.isnan(row["difference_low"])
    assert row["difference"] == mean
    assert (row["sign"], row["agreement"]) == ("", agreement)


def test_our_missing_interval_leaves_the_value(theirs):
    row = against(theirs, ours("G", -23.0, math.nan, math.nan), nats=5.0)
    assert math.isnan(row["difference_low"])
    assert (row["sign"], row["agreement"]) == ("unclear", "within")


def test_families_and_variants_are_compared_too(theirs):
    family = against(theirs, ours("G", -40, -42, -38, group="error_family=permission_error"))
    assert (family["table"], family["theirs"]) == (12, -44.4)
    coderepair = ours("G", -80, -90, -70, environment="mine")
    compared = compare(coderepair, theirs, AS, {"mine": "coderepair"}, {})
    assert compared["theirs"].to_list() == [-82.61]


def test_what_has_no_published_row_is_left_out(theirs):
    estimates = pd.concat(
        [
            ours("G_per_byte", -0.4, -0.5, -0.3),
            ours("G", -20, -22, -18, environment="mine"),
            ours("G", -20, -22, -18, model="other"),
            ours("repair", math.nan, math.nan, math.nan, n=0),
        ]
    )
    compared = compare(estimates, theirs, AS, {**KINDS, "mine": "items"}, {})
    assert len(compared) == 0
    assert claims(compared, LABELS) == []
    assert table(compared, LABELS).rows == ()


def test_claims_count_signs_and_name_what_is_odd(theirs):
    estimates = pd.concat(
        [
            ours("G", -20, -22, -18),
            ours("copy", 19, 18, 20),
            ours("p_repeat_fail", 0.9, 0.85, 0.95),
            ours("greedy_repeat_pre", 0.0, 0.0, 0.05),
        ]
    )
    margins = {"nats": 6.0, "proportion": 0.1}
    (said,) = claims(compare(estimates, theirs, AS, KINDS, margins), LABELS)
    assert "of 2 cells whose published sign is informative, 2 have the same sign" in said
    assert "Of 3 cells with a margin, 2 agree within it; undecided: 1, beyond it: 0" in said
    assert "Consistent with the published signs, under these weights and rewritten items." in said
    unclear = pd.concat([estimates, ours("sem", 0.1, -1, 1)])
    (said,) = claims(compare(unclear, theirs, AS, KINDS, margins), LABELS)
    assert "published signs, under these weights and rewritten items; unclear here: sem." in said
    odd = pd.concat([unclear, ours("repair", -2, -3, -1)])
    (said,) = claims(compare(odd, theirs, AS, KINDS, margins), LABELS)
    assert "Not consistent with the published sign of repair, under" in said
    probability = compare(ours("p_repeat_pre", 0.1, 0, 0.2), theirs, AS, KINDS, {})
    assert "No sign can be compared." in claims(probability, LABELS)[0]


def test_the_table_never_claims_a_replication(theirs):
    estimates = pd.concat([ours("G", -20, -22, -18), ours("sem", 2, 1, 3)])
    compared = compare(estimates, theirs, {"smol": "Qwen3-0.6B"}, KINDS, {"nats": 5.0})
    text = markdown(table(compared, LABELS)) + "".join(claims(compared, LABELS))
    assert "replicated" not in text
    assert "not independent" in text
    assert LABELS["smol"] in text
    assert "−21.50\\*" in text, "a row of mixed items is marked"
    assert "computed from different items" in text


def test_every_published_cell_is_counted_once_compared_or_not_run(theirs):
    compared = compare(ours("G", -21.0, -22.5, -19.0), theirs, AS, KINDS, {"nats": 5.0})
    found = coverage(compared, theirs, KINDS)
    cells = found.data
    assert len(cells) == len(theirs)
    (run,) = cells[cells["state"] == "compared"].to_dict("records")
    assert (run["table"], run["published_as"], run["measure"]) == (3, "SmolLM2-135M", "G")
    heads = list(found.columns)
    printed = [dict(zip(heads, (entry.text for entry in row), strict=True)) for row in found.rows]
    for column in ("cells", "compared", "not run"):
        assert (
            sum(int(row[column]) for row in printed)
            == {
                "cells": len(theirs),
                "compared": 1,
                "not run": len(theirs) - 1,
            }[column]
        )
    (row,) = (row for row in printed if row["compared"] == "1")
    assert (row["same sign"], row["sign compared"], row["within the margin"]) == ("1", "1", "0")
    assert row["undecided"] == "1"  # -21 is 2.92 off, and its interval reaches beyond 5


def test_rollouts_are_compared_by_harness(theirs):
    """The greedy ones alone, and no contrast; published: success 0.42 [0.21, 0.62] of verbatim."""
    row = {"model": "qwen", "environment": "toolshed", "study": "rollouts", "decoding": "greedy"}
    row |= {"harness": "verbatim", "metric": "success", "contrast": False, "mean": 0.5}
    row |= {"ci_low": 0.3, "ci_high": 0.7, "n": 24, "n_clusters": 24, "status": "ok"}
    others = ({"study": "branches"}, {"decoding": "sampled"}, {"contrast": True, "mean": 0.0})
    outcomes = pd.DataFrame([row, *({**row, **other} for other in others)])
    compared = compare(
        of_rollouts(outcomes), theirs, {"qwen": "Qwen2.5-0.5B"}, KINDS, {"proportion": 0.15}
    )
    (found,) = compared.to_dict("records")
    assert (found["table"], found["group"], found["theirs"]) == (8, "harness=verbatim", 0.42)
    assert found["difference"] == pytest.approx(0.08)
    assert found["agreement"] == "undecided"
    assert found["sign"] == ""
    assert "success verbatim" in markdown(table(compared, {"qwen": "qwen"}))
