"""The regression behind the sign map, and G by tenth of the baseline."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import statsmodels.api as sm

from backfire.estimates import Statistics
from backfire.signmap import DECILE_SCHEMA, SIGN_MAP_SCHEMA, deciles, sign_map

QUICK = Statistics(seed=1, resamples=2000)


def measures(before: np.ndarray, after: np.ndarray, per_task: int = 2) -> pd.DataFrame:
    rows = []
    for number, (x, y) in enumerate(zip(before, after, strict=True)):
        for name, value in (("logprob_pre", x), ("logprob_fail", y), ("G", x - y)):
            rows.append((f"i{number:03d}", name, value, f"t{number // per_task:03d}"))
    frame = pd.DataFrame(rows, columns=["item_id", "measure", "value", "task_id"])
    return frame.assign(template=None, step=None, operator=None, error_family=None)


def line(slope: float, intercept: float, n: int = 120, noise: float = 1.0) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    before = rng.uniform(-60, -1, n)
    return measures(before, intercept + slope * before + rng.normal(0, noise, n))


def terms(frame: pd.DataFrame) -> dict[str, pd.Series]:
    return {row["term"]: row for _, row in frame.iterrows()}


def test_finds_the_line_and_its_crossing():
    found = terms(sign_map(line(0.5, -10), "m", "t", QUICK))
    for term, value in {"slope": 0.5, "intercept": -10, "zero_crossing": -20}.items():
        row = found[term]
        assert row["value"] == pytest.approx(value, abs=0.5)
        assert row["ci_low"] < value < row["ci_high"]
        assert row["status"] == "ok"
        assert (row["n"], row["n_clusters"]) == (120, 60)


def test_agrees_with_statsmodels_and_its_sandwich():
    table = line(0.7, -5, noise=4)
    wide = table.pivot(index="item_id", columns="measure", values="value")
    fit = sm.OLS(wide["logprob_fail"], sm.add_constant(wide["logprob_pre"])).fit()
    found = terms(sign_map(table, "m", "t", QUICK))
    assert found["slope"]["value"] == pytest.approx(fit.params["logprob_pre"])
    assert found["intercept"]["value"] == pytest.approx(fit.params["const"])
    for term in ("slope", "intercept"):
        robust, drawn = (
            found[term][f"{kind}_high"] - found[term][f"{kind}_low"] for kind in ("t", "ci")
        )
        assert drawn == pytest.approx(robust, rel=0.15)


def test_row_order_does_not_matter():
    table = line(0.5, -10)
    shuffled = sign_map(table.sample(frac=1, random_state=1), "m", "t", QUICK)
    pd.testing.assert_frame_equal(shuffled, sign_map(table, "m", "t", QUICK))


def test_a_slope_of_one_has_no_crossing():
    found = terms(sign_map(line(1.0, 20, noise=5), "m", "t", QUICK))
    assert np.isnan(found["zero_crossing"]["ci_low"])
    assert "slope may be 1" in found["zero_crossing"]["status"]
    assert found["slope"]["status"] == "ok"


@pytest.mark.parametrize(
    ("slope", "intercept", "remark"), [(0.5, -50, "extrapolated"), (0.5, 20, "no baseline")]
)
def test_a_crossing_outside_the_data_is_said(slope, intercept, remark):
    found = terms(sign_map(line(slope, intercept), "m", "t", QUICK))
    assert found["zero_crossing"]["status"].startswith(remark)


@pytest.mark.parametrize(
    ("before", "per_task", "status"),
    [
        ([-5.0, -5.0, -5.0, -5.0], 1, "undefined"),
        ([-5.0, -6.0], 1, "undefined"),
        ([-5.0, -6.0, -7.0, -9.0], 4, "no interval: a single cluster"),
        ([], 1, "undefined"),
    ],
)
def test_degenerate_data_has_no_interval(before, per_task, status):
    before = np.array(before)
    frame = sign_map(measures(before, before * 0.5, per_task), "m", "t", QUICK)
    assert frame["status"].str.startswith(status).all()
    assert frame[["ci_low", "ci_high", "t_low"]].isna().all(axis=None)
    pa.Table.from_pandas(frame, schema=SIGN_MAP_SCHEMA, preserve_index=False)


def test_deciles_part_the_items_by_baseline():
    table = line(0.5, -10, n=123)
    found = deciles(table, "m", "t", QUICK)
    assert found["decile"].to_list() == list(range(1, 11))
    assert found["n"].sum() == 123
    assert found["n"].max() - found["n"].min() <= 1
    assert (found["baseline_high"].to_numpy()[:-1] <= found["baseline_low"].to_numpy()[1:]).all()
    assert found["mean"].iloc[0] < 0 < found["mean"].iloc[-1]
    wide = table.pivot(index="item_id", columns="measure", values="value")
    lowest = wide.nsmallest(12, "logprob_pre")["G"]
    assert found["mean"].iloc[0] == pytest.approx(lowest.mean())
    pa.Table.from_pandas(found, schema=DECILE_SCHEMA, preserve_index=False)


def test_fewer_than_ten_items_have_fewer_deciles():
    found = deciles(line(0.5, -10, n=4), "m", "t", QUICK)
    assert len(found) == 4
    assert (found["status"] == "no interval: a single cluster").all()
