"""What a change reruns, and how much of it is scored anew: the table that people rely on."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq
import pytest
from studies import Study

pytestmark = pytest.mark.slow

Config = dict[str, Any]

CELL = {"check_scores": 1, "measure": 1, "estimate": 1}
"""What follows the scores of one model on one environment."""

CELLS = dict.fromkeys(CELL, 2)
"""The same for the two environments of the study."""

PAGES = {"make_tables": 1, "draw_figures": 1, "make_report": 1, "all": 1}
"""What shows all models together."""

SUMMARY = {"summarise_model": 1}


def add_model(config: Config) -> None:
    config["models"]["other"] = {**config["models"]["tiny.v1+x"], "dtype": "bfloat16"}


def add_condition(config: Config) -> None:
    config["probes"]["core"]["conditions"].append("fail_terse")


def add_probe(config: Config) -> None:
    config["probes"]["more"] = {"conditions": ["fail_verbose"], "items": {"toolshed": 3}}


def add_environment(config: Config) -> None:
    path = "resources/examples/terminal.jsonl"
    config["environments"]["mine"] = {"kind": "items", "path": path}
    config["probes"]["core"]["items"]["mine"] = 6


def add_items(config: Config) -> None:
    config["probes"]["core"]["items"]["toolshed"] = 12


def more_resamples(config: Config) -> None:
    config["statistics"]["resamples"] = 600


def smaller_shards(config: Config) -> None:
    config["shard_size"] = 6


def more_threads(config: Config) -> None:
    config["scoring"]["threads"] = 2


class Edit(NamedTuple):
    """A change of the library."""

    path: str
    old: str
    new: str


class Change(NamedTuple):
    change: Callable[[Config], None] | Edit | list[str]
    jobs: dict[str, int]


TABLE = {
    "a model": Change(
        add_model,
        {"describe_model": 1, "score_core": 2, **CELLS, "estimate_all_models": 2}
        | {**SUMMARY, **PAGES},
    ),
    # Each shard of the core is assembled anew, from the store but for what is new.
    "a condition": Change(add_condition, {"score_core": 2, **CELLS, **SUMMARY, **PAGES}),
    "a probe": Change(add_probe, {"draw_items": 1, "score_more": 1, **CELL, **SUMMARY, **PAGES}),
    "an environment": Change(
        add_environment,
        {"build_pool": 1, "draw_items": 1, "score_core": 1, **CELL, **SUMMARY, **PAGES},
    ),
    "items": Change(add_items, {"draw_items": 1, "score_core": 2, **CELL, **SUMMARY, **PAGES}),
    "the shard size": Change(
        smaller_shards, {"draw_items": 2, "score_core": 4, **CELLS, **SUMMARY, **PAGES}
    ),
    "the bootstrap's resamples": Change(more_resamples, {"estimate": 2, **SUMMARY, **PAGES}),
    "a figure's style": Change(
        Edit("style.py", 'PAPER = "#ffffff"', 'PAPER = "#fefefe"'),
        {"draw_figures": 1, "make_report": 1, "all": 1},
    ),
    "a comment": Change(Edit("items.py", "\nimport ", "\n# A remark.\nimport "), {}),
    "a docstring": Change(Edit("scoring/engine.py", '"""The packed', '"""Our packed'), {}),
    "the scoring threads": Change(more_threads, {}),
    "the number of cores": Change(["--cores", "1"], {}),
}
"""What a person changes, and the jobs that it costs."""


@pytest.mark.parametrize("name", TABLE)
def test_a_change_reruns_what_depends_on_it(finished: Study, name: str) -> None:
    change, jobs = TABLE[name]
    if isinstance(change, list):
        assert finished.planned("all", *change) == jobs
    elif isinstance(change, Edit):
        file = finished.folder / "workflow/backfire" / change.path
        text = file.read_text(encoding="utf-8")
        assert change.old in text
        file.write_text(text.replace(change.old, change.new, 1), encoding="utf-8")
        planned = finished.planned("all")
        file.write_text(text, encoding="utf-8")
        assert planned == jobs
    else:
        config = finished.config
        finished.configure(changed(config, change))
        planned = finished.planned("all")
        finished.configure(config)
        assert planned == jobs


def changed(config: Config, *changes: Callable[[Config], None]) -> Config:
    copy = deepcopy(config)
    for change in changes:
        change(copy)
    return copy


Prompt = tuple[str, str, tuple[int, ...]]


def scored(study: Study) -> tuple[set[Prompt], int]:
    """The distinct prompts of a study, by model, and how many its last jobs computed."""
    prompts = set()
    for path in (study.folder / "results/scores").rglob("*.parquet"):
        model = path.parts[-4]
        for row in pq.read_table(path).to_pylist():
            prompts.add((model, row["prompt_sha256"], tuple(row["token_ids"])))
    return prompts, study.scoring_counts()["computed"]


def test_only_prompts_never_seen_are_scored(finished: Study, tmp_path: Path) -> None:
    """A condition, items and smaller shards at once; each job says what it computed."""
    study = finished.copy(tmp_path / "copy")
    before, computed = scored(study)
    assert computed == len(before)
    study.configure(changed(study.config, add_condition, add_items, smaller_shards))
    shards = [(environment, shard) for environment in ("toolshed", "terminal") for shard in (0, 1)]
    study.run(
        *(
            f"results/scores/core/tiny.v1+x/{environment}/pre/{shard}.parquet"
            for environment, shard in shards
        )
    )
    after, computed = scored(study)
    assert before < after
    assert computed == len(after - before)
