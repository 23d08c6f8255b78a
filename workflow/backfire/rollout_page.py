"""All that is shown of rollouts, read from a results folder."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from backfire import rollout_config, rollout_figures, rollout_tables
from backfire.estimates import Statistics
from backfire.items import Item, from_table
from backfire.own_comparison import (
    Difference,
    at_one_baseline,
    by_family,
    compare,
    prediction_slopes,
    predictions,
)
from backfire.rollout_results import read_steps, repeated_after
from backfire.rollout_verdict import Outcomes, behaviour, own, predicted, setting
from backfire.storage import read_json, read_made, read_tables
from backfire.summary import label
from backfire.tabular import Table, markdown, of_frame
from backfire.verdict import Sentence
from backfire.verdict import markdown as said

Case = tuple[str, str]
"""A model and an environment."""


class Page:
    """The tables, figures and page of the rollouts in a results folder.

    Args:
        outline: what `rollout_config.outline` says of the study.
        probed: every (model, environment) that the probe covers.
    """

    def __init__(
        self,
        folder: Path,
        outline: Mapping[str, Any],
        probed: Iterable[Case],
        statistics: Statistics,
    ) -> None:
        self.folder = folder
        self.outline = outline
        self.statistics = statistics
        self.cells = rollout_config.cells(outline)
        self.probed = {(model, environment) for model, environment in probed}

    @cached_property
    def labels(self) -> dict[str, str]:
        return {
            model: label(model, read_json(self.folder / "models" / model / "model.json"))
            for model, _ in self.cells
        }

    @cached_property
    def outcomes(self) -> pd.DataFrame:
        paths = [self.folder / "outcomes" / model / f"{name}.parquet" for model, name in self.cells]
        frame: pd.DataFrame = read_tables(paths).to_pandas()
        return frame

    @cached_property
    def steps(self) -> dict[Case, pd.DataFrame]:
        return {case: read_steps(self._files(case)) for case in self.cells}

    @cached_property
    def own(self) -> dict[Case, pd.DataFrame]:
        """The measures of own failures."""
        return {
            case: read_tables([self._own(case) / "measures.parquet"]).to_pandas()
            for case in self.cells
        }

    @cached_property
    def perturbed(self) -> dict[Case, pd.DataFrame]:
        """The measures of the probe on the same environments."""
        return {
            (model, name): read_tables(
                [self.folder / "measures" / model / f"{name}.parquet"]
            ).to_pandas()
            for model, name in self.cells
            if (model, name) in self.probed
        }

    @cached_property
    def tables(self) -> list[Table]:
        if not self.cells:
            return []
        environments = dict.fromkeys(environment for _, environment in self.cells)
        found = [
            table
            for environment in environments
            for table in rollout_tables.build(self.outcomes, environment, self.labels)
        ]
        named = {(self.labels[m], e): one for (m, e), one in self.differences.items()}
        return [
            *found,
            rollout_tables.own_failures(self._labelled(self.compared), named),
            rollout_tables.by_model(self.compared, self.outcomes, self.labels),
            rollout_tables.families(self._labelled(self.families), self._labelled(self.slopes)),
            self.speed,
        ]

    @property
    def shown(self) -> dict[str, list[Table]]:
        """The tables by where the report has them: open, or tucked away."""
        stems = ("table8_", "branches_contrasts_", "own_failures", "rollout_families")
        found: dict[str, list[Table]] = {"rollouts": [], "rollouts_more": []}
        for table in self.tables:
            first = table.name.startswith(stems) and "table8_contrasts" not in table.name
            found["rollouts" if first else "rollouts_more"].append(table)
        return found

    @cached_property
    def own_items(self) -> dict[Case, list[Item]]:
        return {
            case: from_table(read_tables([self._own(case) / "items.parquet"]))
            for case in self.cells
        }

    @cached_property
    def differences(self) -> dict[Case, Difference]:
        """G of own failures less that of perturbed items at the same baseline."""
        return {
            case: at_one_baseline(self.own[case], perturbed, self.statistics)
            for case, perturbed in self.perturbed.items()
        }

    @cached_property
    def compared(self) -> pd.DataFrame:
        """Own failures beside perturbed items, rows of `own_comparison.compare`."""
        return self._over(
            self.cells,
            lambda case: compare(
                self.own[case], self.perturbed.get(case), self.statistics, case[1]
            ),
        )

    @cached_property
    def families(self) -> pd.DataFrame:
        """Does the probe predict what rollouts do? Rows of `own_comparison.by_family`."""
        return self._over(
            self.perturbed,
            lambda case: by_family(
                self.own_items[case],
                repeated_after(self.steps[case]),
                self.perturbed[case],
                self.statistics,
            ),
        )

    @cached_property
    def slopes(self) -> pd.DataFrame:
        return self._over(
            self.perturbed,
            lambda case: prediction_slopes(
                predictions(
                    self.own_items[case], repeated_after(self.steps[case]), self.perturbed[case]
                ),
                self.statistics,
            ),
        )

    def _over(self, cases: Iterable[Case], build: Callable[[Case], pd.DataFrame]) -> pd.DataFrame:
        frames = [build(case).assign(model=case[0], environment=case[1]) for case in cases]
        return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()

    def _labelled(self, frame: pd.DataFrame) -> pd.DataFrame:
        return frame.assign(model=frame["model"].map(self.labels)) if len(frame) else frame

    @cached_property
    def speed(self) -> Table:
        """What each job took, and what rounding may have decided."""
        rows = []
        for case in self.cells:
            for path in self._files(case):
                made = read_made(path)
                keys = ("generated_tokens", "seconds", "tokens_per_second", "near_ties")
                where = {
                    "model": self.labels[case[0]],
                    "environment": case[1],
                    "harness": path.parent.name,
                    "decoding": path.stem,
                    "not_applied": str(made["not applied"] or "nothing"),
                }
                rows.append({**where, **{key: made[key] for key in keys}})
        caption = (
            "Rollouts as they ran: tokens per second of all rollouts of a job together, choices "
            "between tokens closer than 1e-4, and what of the checkpoint's generation config was "
            "not applied."
        )
        return of_frame("rollout_speed", caption, pd.DataFrame(rows))

    def said(self) -> list[tuple[str, list[Sentence]]]:
        """What can be said of each model and environment, under its heading."""
        found = []
        for case in self.cells:
            model, environment = case
            outcomes = Outcomes(self.outcomes, model, environment)
            slopes = self.slopes
            sentences = [
                setting(self.outline["rollouts"][environment], outcomes.harnesses),
                *behaviour(outcomes),
                *own(_of(self.compared, case), self.differences.get(case)),
                *(predicted(_of(slopes, case)) if len(slopes) else []),
            ]
            found.append((f"{self.labels[model]} on {environment}", sentences))
        return found

    def figures(self) -> dict[str, Figure]:
        return {
            "rollouts": rollout_figures.by_harness(self.outcomes, self.labels),
            "retries": rollout_figures.retry_curves(self.outcomes, self.labels),
            "own_failures": rollout_figures.own_and_perturbed(
                self.own, self.perturbed, self.differences, self.families, self.labels
            ),
        }

    def text(self) -> str:
        """The page in Markdown: tables, then trajectories of each model and environment."""
        parts = ["# Rollouts"]
        for title, sentences in self.said():
            parts += [f"## {title}", "\n".join(f"- {said(sentence)}" for sentence in sentences)]
        parts += ["# Tables", *map(markdown, self.tables), "# Trajectories"]
        for (model, environment), steps in self.steps.items():
            parts.append(f"## {self.labels[model]} on {environment}")
            parts.append(rollout_tables.trajectories(steps))
        return "\n\n".join(part.strip("\n") for part in parts) + "\n"

    def _files(self, case: Case) -> list[Path]:
        """The step tables that the configuration names; the folder may hold others."""
        paths = rollout_config.files(self.outline, "rollouts", *case)
        return [self.folder / path for path in paths]

    def _own(self, case: Case) -> Path:
        return self.folder / "own_failures" / case[0] / case[1]


def _of(frame: pd.DataFrame, case: Case) -> pd.DataFrame:
    model, environment = case
    own: pd.DataFrame = frame[(frame["model"] == model) & (frame["environment"] == environment)]
    return own
