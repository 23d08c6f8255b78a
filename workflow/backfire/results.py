"""A study's results as data frames and values, for tables, figures, the report or a notebook."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from backfire import replication, scaling, signmap, spread
from backfire.estimates import Statistics, estimate, estimate_all_models
from backfire.items import Item, from_table
from backfire.rollout_metrics import OUTCOME_SCHEMA
from backfire.storage import read_json, read_tables
from backfire.summary import label
from backfire.trace import trace_of

PUBLISHED = Path(__file__).resolve().parents[2] / "resources" / "published"

CellName = tuple[str, str]
"""A model and an environment."""


@dataclass(frozen=True)
class Results:
    """Everything that a finished study has on disk.

    Args:
        folder: the results folder.
        outline: what `config.outline` says of the study.
    """

    folder: Path
    outline: Mapping[str, Any]

    @property
    def cells(self) -> list[CellName]:
        return [(model, environment) for model, environment in self.outline["cells"]]

    @property
    def models(self) -> list[str]:
        """The models, in the order of the configuration."""
        covered = {model for model, _ in self.cells}
        return [model for model in self.outline["models"] if model in covered]

    @property
    def environments(self) -> list[str]:
        return list(dict.fromkeys(environment for _, environment in self.cells))

    @property
    def conditions(self) -> list[str]:
        return [name for names in self.outline["probes"].values() for name in names]

    @property
    def statistics(self) -> Statistics:
        return Statistics(**self.outline["statistics"])

    @cached_property
    def cards(self) -> dict[str, dict[str, Any]]:
        return {
            model: read_json(self.folder / "models" / model / "model.json") for model in self.models
        }

    @cached_property
    def labels(self) -> dict[str, str]:
        """How each model is printed: its name and its weights."""
        return {model: label(model, card) for model, card in self.cards.items()}

    def labelled(self, frame: pd.DataFrame) -> pd.DataFrame:
        """The frame with each model's name as it is printed."""
        return frame.assign(model=frame["model"].map(self.labels))

    def within(self, frame: pd.DataFrame, environment: str) -> pd.DataFrame:
        """The labelled rows of one environment."""
        return self.labelled(frame[frame["environment"] == environment])

    @cached_property
    def estimates(self) -> pd.DataFrame:
        """The estimates of every model, and of all models where there are several."""
        paths = [self._cell("estimates", *cell) for cell in self.cells]
        if self.several:
            paths += [self.folder / "estimates" / f"{name}.parquet" for name in self.environments]
        frame: pd.DataFrame = read_tables(paths).to_pandas()
        return frame

    def estimates_on(
        self,
        environment: str,
        choose: Callable[[pd.DataFrame], pd.DataFrame],
        names: Iterable[str],
    ) -> pd.DataFrame:
        """The named measures of an environment on chosen items alone, estimated anew.

        Args:
            choose: from the measures of a model to those of the chosen items.
        """
        wanted = set(names)
        chosen = {}
        for model, place in self.cells:
            frame = choose(self.measures[model, place]) if place == environment else None
            if frame is not None and len(frame):
                chosen[model] = frame[frame["measure"].isin(wanted)]
        frames = [estimate(rows, m, environment, self.statistics) for m, rows in chosen.items()]
        if len(chosen) > 1:
            frames.append(estimate_all_models(chosen, environment, self.statistics))
        return pd.concat(frames) if frames else self.estimates.iloc[:0]

    @property
    def several(self) -> bool:
        return len(self.models) > 1

    @cached_property
    def measures(self) -> dict[CellName, pd.DataFrame]:
        return {
            cell: read_tables([self._cell("measures", *cell)]).to_pandas() for cell in self.cells
        }

    @cached_property
    def pools(self) -> dict[str, list[Item]]:
        return {name: self._items(name, "pool") for name in self.environments}

    @cached_property
    def items(self) -> dict[str, list[Item]]:
        """The core probe's items, by environment."""
        return {name: self._items(name, "core") for name in self.environments}

    @cached_property
    def scores(self) -> dict[CellName, pd.DataFrame]:
        """The core probe's scores, by model and environment.

        The shards are those of the configuration; the folder may hold others, of an earlier one.
        """
        return {
            (model, environment): read_tables(
                self.folder / "scores/core" / model / environment / condition / f"{shard}.parquet"
                for condition in self.outline["probes"]["core"]
                for shard in range(self.outline["shards"]["core"][environment])
            ).to_pandas()
            for model, environment in self.cells
        }

    @cached_property
    def sign_map(self) -> pd.DataFrame:
        """The regressions of the sign map, of all models and environments."""
        return self._over_cells(signmap.sign_map)

    @cached_property
    def deciles(self) -> pd.DataFrame:
        """G by tenth of the baseline, of all models and environments."""
        return self._over_cells(signmap.deciles)

    @cached_property
    def wordings(self) -> pd.DataFrame:
        """The spread of G over wordings, of all models and environments."""
        return self._over_cells(spread.wordings)

    @cached_property
    def overlap(self) -> pd.DataFrame:
        """`sem` by the words that the error repeats, of all models and environments."""
        return self._over_cells(spread.by_overlap)

    def _over_cells(self, build: Callable[..., pd.DataFrame]) -> pd.DataFrame:
        return pd.concat(build(self.measures[cell], *cell, self.statistics) for cell in self.cells)

    @cached_property
    def traces(self) -> tuple[pd.DataFrame, pd.DataFrame]:
        """The mean gain of a token by position and by kind, of all models and environments."""
        return trace_of(self.scores, self.items, self.statistics)

    @cached_property
    def comparison(self) -> pd.DataFrame:
        """The estimates beside the published ones."""
        outline = self.outline
        acted = replication.of_rollouts(self.outcomes)
        return replication.compare(
            pd.concat([self.estimates, acted]) if len(acted) else self.estimates,
            self.published,
            outline["published_as"],
            outline["kinds"],
            outline["margins"],
        )

    @cached_property
    def outcomes(self) -> pd.DataFrame:
        """What came of rollouts, where the study has some."""
        paths = [self._cell("outcomes", *cell) for cell in self.outline["rollouts"]]
        table = read_tables(paths) if paths else OUTCOME_SCHEMA.empty_table()
        frame: pd.DataFrame = table.to_pandas()
        return frame

    @cached_property
    def published(self) -> pd.DataFrame:
        """The published estimates."""
        return replication.published(PUBLISHED)

    @property
    def sizes(self) -> dict[str, int]:
        """The number of parameters of each model, as counted when it was loaded."""
        return {model: int(card["parameters"]) for model, card in self.cards.items()}

    @property
    def families(self) -> dict[str, str]:
        """The family of each model: the config's word, or the architecture."""
        named = self.outline["families"]
        return {model: named.get(model, card["architecture"]) for model, card in self.cards.items()}

    @cached_property
    def scaling(self) -> pd.DataFrame:
        """The lines of measures against the size of the model."""
        confidence = self.statistics.confidence
        return scaling.fits(self.estimates, self.sizes, self.families, confidence)

    @property
    def published_environments(self) -> pd.DataFrame:
        """The published statistics of the environments' pools."""
        return pd.read_csv(PUBLISHED / "environments.csv")

    def _cell(self, part: str, model: str, environment: str) -> Path:
        return self.folder / part / model / f"{environment}.parquet"

    def _items(self, environment: str, name: str) -> list[Item]:
        return from_table(read_tables([self.folder / "items" / environment / f"{name}.parquet"]))
