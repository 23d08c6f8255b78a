"""How often the intervals hold the true mean, by simulation. Run this file to redraw the figure."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from backfire.bootstrap import Sample, distribution, percentiles, robust

CLUSTERS = (8, 20, 50)
TEMPLATES = 6
SIZES = (1, 2, 3, 6)
CONFIDENCE = 0.95


class Setting(NamedTuple):
    """Tasks of unequal size; the share of an item's variance that its template has in common."""

    n_clusters: int
    template_effect: bool


def settings() -> Iterator[Setting]:
    for n_clusters in CLUSTERS:
        for template_effect in (False, True):
            yield Setting(n_clusters, template_effect)


def simulate(setting: Setting, rng: np.random.Generator) -> tuple[Sample, npt.NDArray[np.int_]]:
    """Items with a mean of zero, and their templates: template and task effects, skewed noise.

    The variances are 1 (task) and 2 (item), and 0.5 (template) where there is an effect.
    """
    tasks = np.arange(setting.n_clusters)
    task = np.repeat(tasks, rng.choice(SIZES, setting.n_clusters))
    template = (tasks % TEMPLATES)[task]
    values = rng.normal(0, 1, setting.n_clusters)[task]
    values += rng.gamma(2, 1, len(task)) - 2
    if setting.template_effect:
        values += rng.normal(0, np.sqrt(0.5), TEMPLATES)[template]
    return Sample(values, np.ones(len(task)), task, np.zeros(len(task))), template


def coverage(setting: Setting, studies: int, resamples: int, seed: int) -> dict[str, float]:
    """The share of simulated studies whose interval holds zero, by kind of interval."""
    rng = np.random.default_rng([seed, *map(int, setting)])
    held = {"bootstrap over tasks": 0, "t over tasks": 0, "bootstrap over templates": 0}
    for study in range(studies):
        sample, template = simulate(setting, rng)
        by_template = Sample(sample.numerator, sample.denominator, template, sample.stratum)
        stream = (str(study),)
        for kind, (low, high) in {
            "bootstrap over tasks": percentiles(
                distribution(sample, resamples, seed, stream), CONFIDENCE
            ),
            "t over tasks": robust(sample, CONFIDENCE)[0],
            "bootstrap over templates": percentiles(
                distribution(by_template, resamples, seed, stream), CONFIDENCE
            ),
        }.items():
            held[kind] += low <= 0 <= high
    return {kind: count / studies for kind, count in held.items()}


def measured(studies: int, resamples: int, seed: int = 1) -> pd.DataFrame:
    """Coverage in every setting: `tasks template_effect interval coverage error`."""
    rows = []
    for setting in settings():
        for interval, share in coverage(setting, studies, resamples, seed).items():
            error = np.sqrt(share * (1 - share) / studies)
            rows.append((*setting, interval, share, error))
    columns = ["tasks", "template_effect", "interval", "coverage", "error"]
    return pd.DataFrame(rows, columns=columns)


def draw(frame: pd.DataFrame, path: Path) -> None:
    """Coverage against the number of tasks, with two standard errors of the simulation."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    import seaborn as sns

    sns.set_theme(style="ticks", palette="colorblind", font_scale=0.9)
    figure, panels = plt.subplots(1, 2, figsize=(8, 3.4), sharey=True, layout="constrained")
    markers = dict(zip(frame["interval"].unique(), "osD", strict=True))
    for panel, (effect, part) in zip(panels, frame.groupby("template_effect"), strict=True):
        for shift, (interval, rows) in enumerate(part.groupby("interval", sort=False)):
            panel.errorbar(
                np.arange(len(rows)) + 0.12 * (shift - 1),
                100 * rows["coverage"],
                yerr=200 * rows["error"],
                marker=markers[interval],
                linestyle="none",
                capsize=2,
                label=interval,
            )
        panel.axhline(100 * CONFIDENCE, color="0.4", linewidth=1, linestyle="--")
        panel.set_xticks(range(len(CLUSTERS)), CLUSTERS)
        panel.set(xlabel="tasks", title=f"{'with a' if effect else 'no'} template effect")
    panels[0].set_ylabel("studies whose 95 % interval\nholds the true mean (%)")
    panels[0].legend(frameon=False, loc="lower right", fontsize="small")
    sns.despine(figure)
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    folder = Path(__file__).parents[1] / "docs"
    found = measured(studies=2000, resamples=2000)
    found.round(4).to_csv(folder / "coverage.csv", index=False, lineterminator="\n")
    draw(found, folder / "coverage.png")
    print(found.round(3).to_string(index=False))
