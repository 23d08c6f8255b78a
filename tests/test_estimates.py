"""Estimates of whole environments: every cell, its interval or why it has none."""

from __future__ import annotations

import time

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import synthetic

from backfire.estimates import (
    ALL_MODELS,
    ESTIMATE_SCHEMA,
    Statistics,
    estimate,
    estimate_all_models,
)
from backfire.measures import measure

QUICK = Statistics(seed=1, resamples=400)
INTERVAL = ["ci_low", "ci_high"]


def measures(n_tasks: int = 20, seed: int = 0, **changes: object) -> pd.DataFrame:
    items = synthetic.items(n_tasks)
    return measure(synthetic.scores(items, seed=seed), items.assign(**changes))


def cell(estimates: pd.DataFrame, measure: str, group: str = "all") -> pd.Series:
    (row,) = estimates[(estimates["measure"] == measure) & (estimates["group"] == group)].to_dict(
        "records"
    )
    return pd.Series(row)


def setting(table: pd.DataFrame, measure: str, value: object) -> pd.DataFrame:
    """The table with one measure's values replaced."""
    return table.assign(value=table["value"].mask(table["measure"] == measure, value))


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    return measures()


@pytest.fixture(scope="module")
def flat(table: pd.DataFrame) -> pd.DataFrame:
    """The table without groups, which is quicker to estimate."""
    return table.assign(operator=None, error_family=None, step=None, template=None)


@pytest.fixture(scope="module")
def estimates(table: pd.DataFrame) -> pd.DataFrame:
    return estimate(table, "m", "toolshed", QUICK)


def test_the_mean_is_over_items(table, estimates):
    values = table.loc[table["measure"] == "G", "value"]
    found = cell(estimates, "G")
    assert found["mean"] == pytest.approx(values.mean())
    assert found["d_z"] == pytest.approx(values.mean() / values.std())
    assert (found["n"], found["n_clusters"]) == (len(values), 20)
    assert found["ci_low"] < found["mean"] < found["ci_high"]
    assert found["status"] == "ok"


def test_a_group_is_its_items(table, estimates):
    chosen = table[(table["measure"] == "copy") & (table["operator"] == "tool_typo")]
    found = cell(estimates, "copy", "operator=tool_typo")
    assert found["mean"] == pytest.approx(chosen["value"].mean())
    assert found["n_clusters"] == chosen["task_id"].nunique()
    assert {group.partition("=")[0] for group in estimates["group"]} == {
        "all",
        "operator",
        "error_family",
        "step",
        "template",
    }
    assert "step=1" in set(estimates["group"])


def test_intervals_of_the_decomposition_fit_together(estimates):
    """Cells of one group resample the same tasks, so -G = copy + sem in every resample."""
    for group in ("all", "step=0"):
        removed = cell(estimates, "G_abstract", group)
        assert removed[INTERVAL].notna().all()
        assert -cell(estimates, "G", group)["mean"] == pytest.approx(
            cell(estimates, "copy", group)["mean"] + cell(estimates, "sem", group)["mean"]
        )
    flipped = -cell(estimates, "G_neut")[INTERVAL].to_numpy(float)[::-1]
    np.testing.assert_allclose(flipped, cell(estimates, "copy")[INTERVAL].to_numpy(float))


def test_shares_are_ratios_of_sums(table, estimates):
    sums = table.groupby("measure")["value"].sum()
    assert cell(estimates, "form_share")["mean"] == pytest.approx(sums["copy"] / -sums["G"])
    assert cell(estimates, "abstract_removed")["mean"] == pytest.approx(
        1 - sums["G_abstract"] / sums["G"]
    )


def test_a_ratio_uses_the_items_that_have_both(flat):
    lacking = flat[~((flat["measure"] == "copy") & (flat["task_id"] == "task-00"))]
    both = lacking.pivot(index="item_id", columns="measure", values="value")[["copy", "G"]].dropna()
    found = cell(estimate(lacking, "m", "t", QUICK), "form_share")
    assert found["mean"] == pytest.approx(both["copy"].sum() / -both["G"].sum())
    assert found["n"] == len(both)


def test_nothing_to_test_has_no_p(estimates):
    """Only a measure that can have either sign has a p and a standardised size."""
    assert cell(estimates, "G")[["p", "d_z"]].notna().all()
    for name in ("p_repeat_fail", "greedy_repeat_fail", "form_share", "logprob_pre"):
        assert cell(estimates, name)[["p", "d_z"]].isna().all()


def test_a_constant_column_has_no_interval(flat):
    found = cell(estimate(setting(flat, "G", -0.1), "m", "t", QUICK), "G")
    assert found["mean"] == pytest.approx(-0.1)
    assert found[["ci_low", "ci_high", "t_low", "p", "template_low", "d_z"]].isna().all()
    assert found["status"] == "no interval: no variation between clusters"


def test_equal_clusters_have_no_interval(flat):
    """Items vary and tasks do not: no zero-wide interval."""
    one = flat[flat["task_id"].isin(["task-01", "task-04", "task-07"])]
    turns = (one.groupby(["task_id", "measure"]).cumcount() * 2.0 - 1.0) * 3
    found = cell(estimate(one.assign(value=turns), "m", "t", QUICK), "G")
    assert found["mean"] == 0
    assert found["status"] == "no interval: no variation between clusters"


def test_a_single_cluster_has_no_interval(flat):
    one = flat[flat["task_id"] == "task-02"]
    found = cell(estimate(one, "m", "t", QUICK), "G")
    assert (found["n"], found["n_clusters"]) == (3, 1)
    assert found[INTERVAL].isna().all()
    assert found["status"] == "no interval: a single cluster"


def test_no_items_is_said(table):
    """A measure that the conditions allow and no item has is counted, not forgotten."""
    lacking = table[~table["measure"].isin(["repair", "margin_shift", "G"])]
    found = estimate(lacking, "m", "t", QUICK)
    for name in ("repair", "form_share"):
        assert cell(found, name)["n"] == 0
        assert np.isnan(cell(found, name)["mean"])
        assert cell(found, name)["status"] == "no items"
    assert not (found.loc[found["group"] != "all", "n"] == 0).any()


def test_few_clusters_are_warned_of(flat):
    tasks = sorted(set(flat["task_id"]))
    found = estimate(flat[flat["task_id"].isin(tasks[:9])], "m", "t", QUICK)
    warning = "few clusters (9): the interval is too narrow"
    assert cell(found, "G")["status"] == warning
    assert cell(found, "G")[INTERVAL].notna().all()
    ten = estimate(flat[flat["task_id"].isin(tasks[:10])], "m", "t", QUICK)
    assert cell(ten, "G")["status"] == "ok"


@pytest.mark.parametrize(("value", "low", "high"), [(0.0, 0, 0.139), (1.0, 0.861, 1)])
def test_none_or_all_has_an_exact_bound(flat, value, low, high):
    """From 20 tasks: 1 - 0.05 ** (1 / 20) = 0.139."""
    name = "greedy_repeat_abstract"
    found = cell(estimate(setting(flat, name, value), "m", "t", QUICK), name)
    assert found[INTERVAL].to_list() == pytest.approx([low, high], abs=5e-4)
    count = int(value * found["n"])
    assert found["status"] == (f"{count}/{found['n']}: exact one-sided bound from 20 clusters")


def test_a_share_of_nothing_is_undefined(flat):
    """G varies about zero, so a ratio to it means nothing."""
    noise = np.random.default_rng(0).normal(0, 5, len(flat))
    found = cell(estimate(setting(flat, "G", noise), "m", "t", QUICK), "form_share")
    assert found[["mean", *INTERVAL]].isna().all()
    assert found["status"] == "undefined: the denominator is not clear of zero"


def test_more_than_all_is_no_share(flat):
    larger = setting(flat, "copy", 30 + flat["value"] / 100)
    found = cell(estimate(larger, "m", "t", QUICK), "form_share")
    assert found["mean"] > 1
    assert found["status"] == "not a share: outside 0 to 1"


def test_templates_give_a_sensitivity_interval(table, estimates):
    assert cell(estimates, "G")[["template_low", "template_high"]].notna().all()
    without = estimate(table.assign(template=None), "m", "t", QUICK)
    assert without[["template_low", "template_high"]].isna().all(axis=None)
    assert not without["group"].str.startswith("template=").any()


def test_neither_row_order_nor_other_cells_matter(flat):
    estimates = estimate(flat, "m", "toolshed", QUICK)
    again = estimate(flat.sample(frac=1, random_state=3), "m", "toolshed", QUICK)
    pd.testing.assert_frame_equal(again, estimates)
    fewer = estimate(flat[flat["measure"] != "polarity"], "m", "toolshed", QUICK)
    for name in ("G", "copy_succ", "form_share"):
        pd.testing.assert_series_equal(cell(fewer, name), cell(estimates, name))


def test_the_seed_matters_to_the_bootstrap_alone(flat, estimates):
    other = estimate(flat, "m", "toolshed", Statistics(seed=2, resamples=400))
    assert (cell(other, "G")[INTERVAL] != cell(estimates, "G")[INTERVAL]).any()
    assert cell(other, "G")["t_low"] == cell(estimates, "G")["t_low"]


def test_confidence_widens(flat, estimates):
    wide = cell(estimate(flat, "m", "toolshed", Statistics(1, 400, 0.99)), "G")
    assert wide["ci_low"] < cell(estimates, "G")["ci_low"]
    assert wide["t_high"] > cell(estimates, "G")["t_high"]


def test_all_models_is_the_unweighted_mean(flat):
    rng = np.random.default_rng(1)
    other = flat[flat["task_id"] != "task-05"]
    other = other.assign(value=other["value"] * rng.uniform(0.5, 1.5, len(other)))
    together = estimate_all_models({"m": flat, "k": other}, "toolshed", QUICK)
    assert set(together["model"]) == {ALL_MODELS}
    alone = [cell(estimate(rows, "", "toolshed", QUICK), "G")["mean"] for rows in (flat, other)]
    found = cell(together, "G")
    assert found["mean"] == pytest.approx(np.mean(alone))
    assert found["n_clusters"] == 20
    share = cell(together, "form_share")["mean"]
    assert share == pytest.approx(cell(together, "copy")["mean"] / -found["mean"], abs=1e-9)


def test_all_models_says_who_is_absent(flat):
    other = flat[flat["measure"] != "repair"]
    together = estimate_all_models({"m": flat, "k": other}, "toolshed", QUICK)
    assert cell(together, "repair")["status"] == "ok; 1 of 2 models lack it"
    assert cell(together, "repair")["n"] == len(flat["item_id"].unique())


def test_all_models_with_one_nearly_absent_has_no_interval(flat):
    """A third of the resamples leave the second model without an item: no interval, not NaN."""
    other = flat[flat["task_id"] == "task-05"]
    found = cell(estimate_all_models({"m": flat, "k": other}, "toolshed", QUICK), "G")
    assert not np.isnan(found["mean"])
    assert found[INTERVAL].isna().all()
    assert found["status"] == "no interval: some resamples leave a model without items"


def test_estimates_fit_their_schema(table, estimates):
    written = pa.Table.from_pandas(estimates, schema=ESTIMATE_SCHEMA, preserve_index=False)
    assert written.num_rows == len(estimates) > 100
    empty = estimate(table.iloc[:0], "m", "t", QUICK)
    pa.Table.from_pandas(empty, schema=ESTIMATE_SCHEMA, preserve_index=False)


def test_a_whole_environment_takes_seconds():
    items = synthetic.items(58, (1, 2, 2))
    table = measure(synthetic.scores(items), items)
    start = time.process_time()
    found = estimate(table, "m", "toolshed", Statistics(seed=1, resamples=10_000))
    assert len(found) > 400
    assert time.process_time() - start < 20
