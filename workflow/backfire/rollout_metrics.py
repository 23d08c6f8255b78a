"""What is read off rollouts and branches: each metric is a sum over another, by rollout.

A repeat is an action that has already failed in the same rollout: `exact` as text, `canonical`
in the environment's one spelling. A call is valid that parses, binds and succeeds; `finish()`
acts on nothing, and is counted apart. Intervals are those of the probe: a cluster bootstrap over
tasks; a contrast with `verbatim` resamples the same tasks of both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa

from backfire.bootstrap import Sample, distribution, percentiles
from backfire.estimates import Estimate, Statistics, estimate_sample
from backfire.harnesses import GREEDY, REFERENCE
from backfire.replies import writes_a_speaker
from backfire.terms import Measure

OUTCOME_SCHEMA = pa.schema(
    [
        pa.field("model", pa.string(), nullable=False),
        pa.field("environment", pa.string(), nullable=False),
        pa.field("study", pa.string(), nullable=False),  # rollouts, branches
        pa.field("decoding", pa.string(), nullable=False),  # greedy, sampled
        pa.field("harness", pa.string(), nullable=False),
        pa.field("metric", pa.string(), nullable=False),
        pa.field("contrast", pa.bool_(), nullable=False),  # the difference from `verbatim`
        pa.field("mean", pa.float64()),
        pa.field("ci_low", pa.float64()),
        pa.field("ci_high", pa.float64()),
        pa.field("n", pa.int32(), nullable=False),  # rollouts with the metric
        pa.field("n_clusters", pa.int32(), nullable=False),  # tasks
        pa.field("status", pa.string(), nullable=False),
    ]
)


class Metric(NamedTuple):
    """`above` summed over rollouts, divided by `below`; both are columns of `per_rollout`."""

    formula: str
    above: str
    below: str = "one"
    proportion: bool = True


METRICS: dict[str, Metric] = {
    "success": Metric("the goal predicate held", "success"),
    "loop": Metric("the step limit was reached and a failed action was repeated", "loop"),
    "exact_repeat_rate": Metric(
        "failed actions that repeat a failed one / failed actions", "exact_failed", "failed"
    ),
    "canonical_repeat_rate": Metric(
        "the same in the environment's one spelling", "canonical_failed", "failed"
    ),
    "repeats_per_rollout": Metric(
        "mean over rollouts that failed of their exact repeat rate", "exact_share", "fails"
    ),
    "canonical_repeats_per_rollout": Metric(
        "mean over rollouts that failed of their canonical repeat rate", "canonical_share", "fails"
    ),
    "repeats_per_opportunity": Metric(
        "exact repeats / turns after a first failure", "exact", "opportunities"
    ),
    "canonical_repeats_per_opportunity": Metric(
        "canonical repeats / turns after a first failure", "canonical", "opportunities"
    ),
    "consecutive_repeats": Metric("turns that write the last action again", "again", "later"),
    "without_failure": Metric("no action failed", "clean"),
    "prose": Metric("turns that hold no call, or no program", "prose", "steps"),
    "cut_off": Metric("turns that the token limit ended", "cut_off", "steps"),
    "false_success": Metric("finish() while the goal predicate did not hold", "false_success"),
    "speaker_turns": Metric("turns that go on as another speaker", "speaker", "steps"),
    "steps": Metric("turns", "steps", proportion=False),
    "generated_tokens": Metric("tokens written", "generated_tokens", proportion=False),
    "prompt_tokens": Metric("tokens of all prompts", "prompt_tokens", proportion=False),
    "context_tokens_per_step": Metric(
        "tokens of a prompt", "prompt_tokens", "steps", proportion=False
    ),
}
"""Of rollouts. `success_within_K` and `repeat`, of branches, are in `branch_metrics`."""


def branch_metrics(attempts: int) -> dict[str, Metric]:
    """The metrics of the branch study, of the first attempt after a failure and of K attempts."""
    found = {
        "repeat": Metric("the next action is the failed one", "first_exact"),
        "canonical_repeat": Metric("the next action means the failed one", "first_canonical"),
        f"repeat_within_{attempts}": Metric(
            f"an action that has failed is written again in {attempts} more attempts", "any_exact"
        ),
        "valid": Metric("the next action is a call, or a program, that succeeds", "first_valid"),
        "finish": Metric("the next action is finish()", "first_finish"),
    }
    for number in range(1, attempts + 1):
        text = f"the goal predicate holds after {number} more attempts"
        found[f"success_within_{number}"] = Metric(text, f"within_{number}")
    return found


def marked(
    steps: pd.DataFrame, keys: list[str], failed: pd.DataFrame | None = None
) -> pd.DataFrame:
    """The steps in order, with the columns `exact`, `canonical_repeat`, `again`, `opportunity`.

    Args:
        steps: rows of `rollouts.STEP_SCHEMA`, with `keys` that name a rollout.
        failed: by task, the `action` and `canonical` that had failed before the rollouts began.
    """
    before = {} if failed is None else failed.set_index("task_id").to_dict("index")
    rows = []
    for names, rollout in steps.sort_values([*keys, "step"]).groupby(keys, sort=False):
        known: list[tuple[str, str]] = []
        if given := before.get(names[keys.index("task_id")]):
            known.append((given["action"], given["canonical"]))
        last = known[0][0] if known else None
        for row in rollout.to_dict("records"):
            rows.append(
                {
                    **row,
                    "exact": any(row["action"] == action for action, _ in known),
                    "canonical_repeat": any(row["canonical"] == one for _, one in known),
                    "again": row["action"] == last,
                    "opportunity": bool(known),
                    "speaker": writes_a_speaker(row["text"]),
                }
            )
            last = row["action"]
            if not row["ok"]:
                known.append((row["action"], row["canonical"]))
    columns = [*steps.columns, "exact", "canonical_repeat", "again", "opportunity", "speaker"]
    return pd.DataFrame(rows, columns=columns)


def per_rollout(marks: pd.DataFrame, keys: list[str], attempts: int = 0) -> pd.DataFrame:
    """One row for each rollout: what the metrics sum.

    Args:
        marks: what `marked` gives.
        attempts: for branches, up to how many attempts success is looked for.
    """
    rows = []
    for names, steps in marks.groupby(keys, sort=False):
        failing, last = ~steps["ok"].astype(bool), steps.iloc[-1]
        failed = int(failing.sum())
        exact, canonical = (
            int((steps[mark] & failing).sum()) for mark in ("exact", "canonical_repeat")
        )
        row: dict[str, Any] = {
            **dict(zip(keys, names, strict=True)),
            "one": 1,
            "success": bool(steps["solved"].any()),
            "loop": last["stop"] == "steps" and bool(steps["exact"].any()),
            "failed": failed,
            "fails": failed > 0,
            "clean": failed == 0,
            "exact": steps["exact"].sum(),
            "canonical": steps["canonical_repeat"].sum(),
            "exact_failed": exact,
            "canonical_failed": canonical,
            "exact_share": exact / max(failed, 1),
            "canonical_share": canonical / max(failed, 1),
            "opportunities": steps["opportunity"].sum(),
            "again": steps["again"].sum(),
            "later": len(steps) - 1,
            "prose": (~steps["readable"].astype(bool)).sum(),
            "cut_off": (steps["ending"] == "length").sum(),
            "speaker": steps["speaker"].sum(),
            "false_success": last["stop"] == "finished",
            "steps": len(steps),
            "generated_tokens": steps["generated_tokens"].sum(),
            "prompt_tokens": steps["prompt_tokens"].sum(),
        }
        if attempts:
            first = steps.iloc[0]
            row["first_exact"], row["first_canonical"] = first["exact"], first["canonical_repeat"]
            row["any_exact"] = bool(steps["exact"].iloc[:attempts].any())
            row["first_finish"] = first["finished"]
            row["first_valid"] = first["ok"] and not first["finished"]
            for number in range(1, attempts + 1):
                row[f"within_{number}"] = bool(steps["solved"].iloc[:number].any())
        rows.append(row)
    return pd.DataFrame(rows)


def estimate_rollouts(
    rollouts: pd.DataFrame,
    metrics: Mapping[str, Metric],
    statistics: Statistics,
    names: Mapping[str, str],
) -> pd.DataFrame:
    """Every metric of every harness under every kind of decoding, and its contrast.

    Args:
        rollouts: what `per_rollout` gives, with `harness`, `decoding` and `task_id`.
        names: `model`, `environment` and `study`, for the rows.

    Returns:
        Rows of `OUTCOME_SCHEMA`.
    """
    kinds = np.where(rollouts["decoding"] == GREEDY, GREEDY, "sampled")
    rows = []
    for kind in dict.fromkeys(kinds):
        own = rollouts[kinds == kind]
        stream = (names["environment"], names["study"])
        for harness, metric, cell, contrast in _cells(own, metrics, statistics, stream):
            known = {key: asdict(cell)[key] for key in OUTCOME_SCHEMA.names if key in asdict(cell)}
            where = {"decoding": kind, "harness": harness, "metric": metric, "contrast": contrast}
            rows.append({**names, **where, **known})
    return pd.DataFrame(rows, columns=OUTCOME_SCHEMA.names)


def _cells(
    rollouts: pd.DataFrame,
    metrics: Mapping[str, Metric],
    statistics: Statistics,
    stream: tuple[str, ...],
) -> Iterator[tuple[str, str, Estimate, bool]]:
    by_harness = {str(name): rows for name, rows in rollouts.groupby("harness", sort=False)}
    for name, metric in metrics.items():
        samples = {harness: _sample(rows, metric) for harness, rows in by_harness.items()}
        for harness, sample in samples.items():
            yield harness, name, _estimate(name, metric, sample, statistics, stream), False
            if harness != REFERENCE and REFERENCE in samples:
                difference = _difference(sample, samples[REFERENCE], statistics, stream)
                yield harness, name, difference, True


def _sample(rows: pd.DataFrame, metric: Metric) -> Sample:
    return Sample(
        rows[metric.above].to_numpy(float),
        rows[metric.below].to_numpy(float),
        rows["task_id"].to_numpy(object),
        np.zeros(len(rows)),
    )


def _estimate(
    name: str, metric: Metric, sample: Sample, statistics: Statistics, stream: tuple[str, ...]
) -> Estimate:
    has = sample.denominator > 0
    if not has.any():
        return Estimate()
    # Rollouts without what is divided by add nothing to the sums, and are no trials of a bound.
    sample = Sample(*(column[has] for column in vars(sample).values()))
    never = metric.proportion and not sample.numerator.any()
    unit = "proportion" if metric.proportion and (metric.below == "one" or never) else "count"
    measure = Measure(name, unit, metric.formula, (), signed=False)
    return estimate_sample(measure, sample, statistics, stream)


def _difference(
    sample: Sample, reference: Sample, statistics: Statistics, stream: tuple[str, ...]
) -> Estimate:
    """The metric less that of the reference, both over the same resampled tasks."""
    if not (sample.denominator.any() and reference.denominator.any()):
        return Estimate()
    mean = sample.estimate() - reference.estimate()
    plain = Estimate(mean=mean, n=len(sample.numerator), n_clusters=sample.n_clusters)
    if set(sample.cluster) != set(reference.cluster):
        return replace(plain, status="no interval: other tasks")
    drawn, other = (
        distribution(one, statistics.resamples, statistics.seed, stream)
        for one in (sample, reference)
    )
    between = drawn - other
    if not np.isfinite(between).all():
        return replace(plain, status="no interval: undefined in some resamples")
    if np.ptp(between) == 0:
        return replace(plain, status="no interval: no variation between clusters")
    low, high = percentiles(between, statistics.confidence)
    return replace(plain, ci_low=low, ci_high=high, status="ok")
