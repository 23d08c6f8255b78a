"""The effect against the size of the model, and this study drawn beside the published one."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from backfire import replication, scaling, studyfigures
from backfire.estimates import ESTIMATE_SCHEMA

SIZES = {"a": 100_000_000, "b": 300_000_000, "c": 1_000_000_000, "d": 500_000_000}
FAMILIES = {"a": "Smol", "b": "Smol", "c": "Smol", "d": "Other"}
MEANS = {"a": -1.5, "b": -0.9, "c": -0.4, "d": -0.8}


def estimates(means: dict[str, float], measure: str = "G_per_token") -> pd.DataFrame:
    row = dict.fromkeys(ESTIMATE_SCHEMA.names)
    row |= {"environment": "toolshed", "group": "all", "n": 9, "n_clusters": 9, "status": "ok"}
    row["measure"] = measure
    return pd.DataFrame(
        [
            {**row, "model": model, "mean": mean, "ci_low": mean - 0.1, "ci_high": mean + 0.1}
            for model, mean in means.items()
        ]
    )


def line(means: dict[str, float], family: str = "all") -> dict[str, object]:
    found = scaling.fits(estimates(means), SIZES, FAMILIES, 0.95)
    (row,) = found[found["family"] == family].to_dict("records")
    return row


def test_the_line_is_least_squares_with_students_interval() -> None:
    row = line(MEANS)
    x, y = np.log10([SIZES[m] for m in MEANS]), np.array([*MEANS.values()])
    slope = np.cov(x, y, bias=True)[0, 1] / x.var()
    rest = y - y.mean() - slope * (x - x.mean())
    error = math.sqrt(rest @ rest / 2 / ((x - x.mean()) @ (x - x.mean())))
    assert row["slope"] == pytest.approx(slope)
    assert row["slope_high"] == pytest.approx(slope + stats.t.ppf(0.975, 2) * error)
    assert row["models"] == 4
    assert line(MEANS, "Smol")["models"] == 3


def test_no_crossing_is_claimed_beyond_the_models() -> None:
    below = line(MEANS)
    assert math.isnan(below["crossing"])
    assert "beyond nothing is claimed" in scaling.said(below)
    turning = line({"a": -1.0, "b": -0.1, "c": 1.0, "d": 0.2})
    assert SIZES["a"] < turning["crossing"] < SIZES["c"]
    at = turning["slope"] * math.log10(turning["crossing"] / turning["smallest"])
    assert turning["at_smallest"] + at == pytest.approx(0)
    assert "crosses zero at about" in scaling.said(turning)


def test_two_models_make_no_trend_and_one_no_line() -> None:
    two = line({"a": -1.5, "c": -0.5})
    assert math.isnan(two["slope_low"])
    assert "+1.00 nats; two models make no trend" in scaling.said(two)
    assert scaling.fits(estimates({"a": -1.5}), SIZES, FAMILIES, 0.95).empty


def test_the_figure_draws_every_model_and_no_line_past_them() -> None:
    frame = pd.concat(estimates(MEANS, name) for name in ("G", "copy", "sem", "G_per_token"))
    lines = scaling.fits(frame, SIZES, FAMILIES, 0.95)
    figure = studyfigures.scaling(frame, lines, SIZES, FAMILIES)
    above = figure.axes[0]
    heights = [bars[0].get_ydata()[0] for bars in above.containers]
    assert heights == pytest.approx([MEANS[model] for model in SIZES])
    dashed = [drawn for drawn in above.lines if drawn.get_linestyle() == "--"]
    assert [list(drawn.get_xdata()) for drawn in dashed] == [[SIZES["a"], SIZES["c"]]]
    alone = studyfigures.scaling(estimates({"a": -1.0}), lines.iloc[:0], {"a": 1}, {"a": "Smol"})
    assert "two sizes" in alone.axes[0].texts[0].get_text()


def test_the_published_values_are_drawn_against_ours() -> None:
    theirs = replication.published(Path(__file__).parents[1] / "resources" / "published")
    own = pd.concat([estimates({"a": -1.3}), estimates({"a": -29.0}, "G")])
    kinds, named = {"toolshed": "toolshed"}, {"a": "SmolLM2-135M"}
    compared = replication.compare(own, theirs, named, kinds, {})
    figure = studyfigures.beside_published(compared)
    points = {
        ax.get_title("left"): [bars[0].get_xydata().tolist()[0] for bars in ax.containers]
        for ax in figure.axes
    }
    assert points == {
        "nats, logarithmic beyond ±5": [[-23.92, -29.0]],
        "nats/token": [[-1.21, -1.3]],
    }
    assert (
        "No published"
        in studyfigures.beside_published(compared.iloc[:0]).axes[0].texts[0].get_text()
    )
