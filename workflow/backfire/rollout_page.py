"""All that is shown of rollouts, read from a results folder."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from backfire import rollout_figures, rollout_tables
from backfire.items import from_table
from backfire.own_failures import by_family
from backfire.rollout_results import read_steps, repeated_after
from backfire.storage import read_json, read_made, read_tables
from backfire.summary import label
from backfire.tabular import Table, markdown, of_frame

Case = tuple[str, str]
"""A model and an environment."""


class Page:
    """The tables, figures and page of the rollouts in a results folder.

    Args:
        cells: every (model, environment) that has rollouts.
        probed: every (model, environment) that the probe covers.
    """

    def __init__(self, folder: Path, cells: Iterable[Case], probed: Iterable[Case]) -> None:
        self.folder = folder
        self.cells = [(model, environment) for model, environment in cells]
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
        environments = dict.fromkeys(environment for _, environment in self.cells)
        found = [
            table
            for environment in environments
            for table in rollout_tables.build(self.outcomes, environment, self.labels)
        ]
        return [*found, self.families, self.speed]

    @cached_property
    def families(self) -> Table:
        """Does the probe predict what rollouts do?"""
        frames = [
            by_family(
                from_table(read_tables([self._own(case) / "items.parquet"])),
                repeated_after(self.steps[case]),
                self.perturbed[case],
            ).assign(model=self.labels[case[0]], environment=case[1])
            for case in self.cells
            if case in self.perturbed
        ]
        caption = (
            "Own failures repeated in the next turn under verbatim, beside the mean G (nats) of "
            "perturbed items of other tasks, by error family."
        )
        frame = pd.concat(frames) if frames else pd.DataFrame({"error_family": []})
        return of_frame("rollout_families", caption, frame)

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

    def figures(self) -> dict[str, Figure]:
        return {
            "rollouts": rollout_figures.by_harness(self.outcomes, self.labels),
            "retries": rollout_figures.retry_curves(self.outcomes, self.labels),
            "own_failures": rollout_figures.own_and_perturbed(
                self.own, self.perturbed, self.labels
            ),
        }

    def text(self) -> str:
        """The page in Markdown: tables, then trajectories of each model and environment."""
        parts = ["# Rollouts", *map(markdown, self.tables), "# Trajectories"]
        for (model, environment), steps in self.steps.items():
            parts.append(f"## {self.labels[model]} on {environment}")
            parts.append(rollout_tables.trajectories(steps))
        return "\n\n".join(part.strip("\n") for part in parts) + "\n"

    def _files(self, case: Case) -> list[Path]:
        return sorted((self.folder / "rollouts" / case[0] / case[1]).glob("*/*.parquet"))

    def _own(self, case: Case) -> Path:
        return self.folder / "own_failures" / case[0] / case[1]
