"""From a study's results to its report and summaries."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from backfire import replication_tables, rollout_config, scaling
from backfire.catalogue import build_tables, figure_stems
from backfire.cells import Study
from backfire.chat import Chat
from backfire.models import folder_of
from backfire.provenance import versions
from backfire.report_inputs import ReportInputs
from backfire.results import Results
from backfire.rollout_page import Page
from backfire.rollout_verdict import places
from backfire.storage import read_json
from backfire.summary import terminal


def study_of(results: Results) -> Study:
    """The estimates as the report and the summaries look them up."""
    margin = results.outline["equivalence_margin"]
    return Study(results.estimates, margin, results.statistics.confidence)


def gather(
    results: Results, config: Mapping[str, Any], rollouts: Mapping[str, Any]
) -> ReportInputs:
    """All that the report shows; figures, checks and benchmarks must lie in the results folder.

    Args:
        rollouts: what `rollout_config.outline` says of the study.
    """
    folder = results.folder
    acted = Page(folder, rollouts, results.cells, results.statistics)
    names = {label: model for model, label in acted.labels.items()}
    return ReportInputs(
        estimates=results.estimates,
        cards=results.cards,
        scores=results.scores,
        items=results.items,
        chats={
            model: Chat.of(folder_of(card["source"]), card) for model, card in results.cards.items()
        },
        figures={
            name: (folder / "figures" / f"{name}.svg").read_text(encoding="utf-8")
            for name in (*figure_stems(results.outline), *rollout_config.figure_stems(rollouts))
        },
        tables={**build_tables(results), **acted.shown},
        claims=replication_tables.claims(results.comparison, results.labels),
        trends=_trends(results),
        rollouts=acted.said(),
        places=places(acted.tables, names),
        checks=_checks(results),
        steps=steps(folder / "benchmarks", results.outline, rollouts),
        versions=versions(),
        config=yaml.safe_dump(dict(config), sort_keys=False, allow_unicode=True),
        margin=results.outline["equivalence_margin"],
        confidence=results.statistics.confidence,
    )


def _trends(results: Results) -> list[str]:
    lines = results.scaling
    chosen = lines[lines["measure"] == "G_per_token"]
    return [scaling.said(fit) for fit in chosen.to_dict("records")]


def _checks(results: Results) -> pd.DataFrame:
    rows = [
        {
            "model": results.labels[model],
            "environment": environment,
            **read_json(results.folder / "checks" / model / f"{environment}.json"),
        }
        for model, environment in results.cells
    ]
    return pd.DataFrame(rows)


def steps(folder: Path, outline: Mapping[str, Any], rollouts: Mapping[str, Any]) -> pd.DataFrame:
    """Time and memory by kind of job, from Snakemake's benchmark files in `folder`.

    Jobs of shards and rollouts that the study no longer has are left out.

    Returns:
        Columns `step`, `jobs`, `seconds` and `cpu_seconds` (sums), `peak_memory_mb`.
    """
    paths = [
        path
        for path in sorted(folder.rglob("*.tsv"))
        if _current(path.relative_to(folder), outline, rollouts)
    ]
    if not paths:
        return pd.DataFrame()
    rows = [
        pd.read_csv(path, sep="\t", na_values="-").assign(
            step=path.relative_to(folder).parts[0].removesuffix(".tsv")
        )
        for path in paths
    ]
    by_step = pd.concat(rows).groupby("step", sort=True)
    return pd.DataFrame(
        {
            "jobs": by_step.size(),
            "seconds": by_step["s"].sum().round(1),
            "cpu_seconds": by_step["cpu_time"].sum().round(1),
            "peak_memory_mb": by_step["max_rss"].max().round(),
        }
    ).reset_index()


def _current(path: Path, outline: Mapping[str, Any], rollouts: Mapping[str, Any]) -> bool:
    """Whether a benchmark is of a job that the study has; those of scores and rollouts come and go.

    Args:
        path: below the folder of benchmarks.
    """
    match path.parts:
        case (("roll_out" | "branch_out") as step, model, environment, harness, decoding):
            study = "rollouts" if step == "roll_out" else "branches"
            cell = (model, environment)
            name = f"{study}/{model}/{environment}/{harness}/{Path(decoding).stem}.parquet"
            known = rollout_config.cells(rollouts)
            return cell in known and name in rollout_config.files(rollouts, study, *cell)
        case ("score_own_failures", model, environment):
            return (model, Path(environment).stem) in rollout_config.cells(rollouts)
        case (step, model, environment, shard) if step.startswith("score_"):
            shards = outline["shards"].get(step.removeprefix("score_"), {}).get(environment, 0)
            return [model, environment] in outline["cells"] and int(Path(shard).stem) < shards
    return True


def closing_summary(results: Results) -> str:
    """What a run prints at its end."""
    checks = _checks(results)
    closing = [
        f"WARNING: scores of {row.model} on {row.environment} differ from the plain loop by up to "
        f"{row.max_difference:.2g} nats; do not trust them. See the report."
        for row in checks[~checks["ok"].astype(bool)].itertuples()
    ]
    closing.append(f"The report: {(results.folder / 'report.html').resolve()}")
    return terminal(study_of(results), results.cards, closing)
