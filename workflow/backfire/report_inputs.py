"""What the report is made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from backfire.export import Renderer
from backfire.items import Item
from backfire.tabular import Table
from backfire.verdict import Sentence


@dataclass(frozen=True)
class ReportInputs:
    """All that the page shows.

    Attributes:
        estimates: rows of `estimates.ESTIMATE_SCHEMA`, all models and environments.
        cards: by model, in the order of the config, what `models.card` says of it.
        scores: by (model, environment), rows of the core probe's score shards.
        items: by environment, the core probe's drawn items.
        chats: by model, its chat, to render the worked items.
        figures: by name (`decomposition`, `families`, ...), the text of the saved SVG.
        tables: by what they show (`gain`, `repetition`, `families`, ...; a section asks for them
            by these names), one table per environment; their files are `tables/{name}.csv`.
        claims: what the comparison with the published study allows one to say.
        trends: what the fits against the size of the model allow one to say.
        rollouts: what rollouts allow one to say of each model and environment, under its heading.
        checks: the re-check of stored scores by the plain loop, one row per model and
            environment, shown as it is; a column `ok` decides the sentence.
        steps: one row per kind of job, such as `step jobs seconds memory_mb`.
        versions: by package.
        config: the configuration as YAML.
        margin: G per token within ± this many nats counts as no effect; None claims none.
        confidence: of the intervals.
        source: the file, relative to the page, that holds every estimate, for numbers that
            stand in none of the tables.
        places: by (model, environment, group, measure), the files of other numbers.
    """

    estimates: pd.DataFrame
    cards: Mapping[str, Mapping[str, Any]]
    scores: Mapping[tuple[str, str], pd.DataFrame]
    items: Mapping[str, Sequence[Item]]
    chats: Mapping[str, Renderer]
    figures: Mapping[str, str]
    tables: Mapping[str, Sequence[Table]] = field(default_factory=dict)
    claims: Sequence[str] = ()
    trends: Sequence[str] = ()
    rollouts: Sequence[tuple[str, Sequence[Sentence]]] = ()
    checks: pd.DataFrame = field(default_factory=pd.DataFrame)
    steps: pd.DataFrame = field(default_factory=pd.DataFrame)
    versions: Mapping[str, str] = field(default_factory=dict)
    config: str = ""
    margin: float | None = None
    confidence: float = 0.95
    source: str = "tables/estimates.csv"
    places: Mapping[tuple[str, ...], str] = field(default_factory=dict)

    def showing(self, *names: str) -> list[Table]:
        """The tables of these names, those that there are."""
        return [table for name in names for table in self.tables.get(name, ())]
