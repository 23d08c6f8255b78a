"""The coverage of the intervals; docs/statistics.md shows the figure from the same code."""

from __future__ import annotations

import pandas as pd
import pytest
from coverage_simulation import CLUSTERS, measured

STUDIES = 400


@pytest.fixture(scope="module")
def found() -> pd.DataFrame:
    frame = measured(studies=STUDIES, resamples=1000)
    return frame.set_index(["interval", "template_effect", "tasks"])["coverage"].sort_index()


@pytest.mark.slow
def test_coverage_without_a_template_effect(found):
    """Near 95 % with fifty tasks, and too low with eight, as the status of such cells warns.

    Two standard errors of the simulation are about 2 points.
    """
    tasks = found["bootstrap over tasks", False]
    assert 0.91 < tasks[50] <= 0.98
    assert 0.88 < tasks[20] < 0.97
    assert 0.78 < tasks[8] < 0.93
    t = found["t over tasks", False]
    assert all(t[n] >= tasks[n] - 0.01 for n in CLUSTERS), "the t interval is the wider one"


@pytest.mark.slow
def test_a_template_effect_breaks_the_interval_over_tasks(found):
    """Tasks of one template are not independent; with many tasks only templates are."""
    tasks, templates = (found[f"bootstrap over {what}", True] for what in ("tasks", "templates"))
    assert tasks[50] < 0.88
    assert templates[50] > tasks[50] + 0.03
