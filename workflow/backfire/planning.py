"""What a study will take, from its configuration: time, memory and disk by model and stage.

Times are for one CPU thread. They come from the score shards that lie in the results, scaled by
a model's parameters, or else from the rates below, measured for SmolLM2-135M in float32 on one
core of a server (2.5 GHz, AVX-512); a laptop's core is about as fast.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Any

import psutil
import pyarrow.compute as pc
import pyarrow.parquet as pq

from backfire import catalogue, rollout_config
from backfire import config as study
from backfire.bundles import BUNDLES
from backfire.memory import needed_mb, parameters_of
from backfire.models import folder_of, weight_files
from backfire.storage import read_made

RATE = 2.0e10
"""Tokens per second and thread, times the parameters of the model."""

TOKENS = {"toolshed": 80, "coderepair": 140}
"""Tokens that one item costs under one condition, by kind of environment, after sharing."""

OTHER_TOKENS = 150
"""The same for kinds that are not known, such as items of the user's own."""

CONTEXT = {"toolshed": 720, "coderepair": 300}
"""Tokens of a prompt, which a check of a stored score reads whole."""

TURN = 150
"""What a turn of a rollout costs, in scored tokens; many rollouts end before their last turn."""

START = 15.0
"""Seconds until a job that needs torch has begun."""

ANALYSIS = 20.0
"""Seconds for the measures and 10,000 resamples of a model on an environment."""

PAGES = 45.0
"""Seconds for all tables, figures and the report."""

SCORE_BYTES = 3500
"""Bytes on disk of one item under one condition, in the shard and in the store."""


@dataclass(frozen=True)
class Stage:
    """What one stage takes for one model.

    Attributes:
        seconds: of one thread, over all jobs; None where the model's size is not known.
        memory: MB of one job.
        disk: MB that are written.
        ready: how many of the jobs are done.
    """

    model: str
    name: str
    jobs: int
    seconds: float | None
    memory: float | None
    disk: float | None
    ready: int = 0


def scoring_seconds(
    config: study.Config, probe: str, model: str, environment: str, items: int, rate: float = RATE
) -> float | None:
    """Seconds of one thread to score items of an environment under a probe's conditions."""
    parameters = parameters_of(config["models"][model])
    if parameters is None:
        return None
    kind = config["environments"][environment]["kind"]
    tokens = items * len(config["probes"][probe]["conditions"]) * TOKENS.get(kind, OTHER_TOKENS)
    return START + tokens * parameters / rate


def scoring_minutes(config: study.Config, probe: str, model: str, environment: str) -> int:
    """A time limit for a scoring job: four times what its shard is thought to take."""
    seconds = shard_seconds(config, probe, model, environment)
    return 240 if seconds is None else max(30, ceil(4 * seconds / 60))


def shard_seconds(config: study.Config, probe: str, model: str, environment: str) -> float | None:
    """Seconds of one thread to score a whole shard."""
    items = min(config["shard_size"], config["probes"][probe]["items"][environment])
    return scoring_seconds(config, probe, model, environment, items)


def measured_rate(config: study.Config, results: Path = Path("results")) -> float | None:
    """The rate of this machine, from shards whose every score was computed at once."""
    work = seconds = 0.0
    for model, environment in study.cells(config):
        parameters = parameters_of(config["models"][model])
        kind = config["environments"][environment]["kind"]
        for probe in study.probes_of(config, model, environment):
            conditions = config["probes"][probe]["conditions"]
            for path in results.glob(
                f"scores/{probe}/{model}/{environment}/{conditions[0]}/*.parquet"
            ):
                made = read_made(path)
                if parameters is None or made["reused"]:
                    continue
                items = len(pc.unique(pq.read_table(path, columns=["item_id"])["item_id"]))
                tokens = items * len(conditions) * TOKENS.get(kind, OTHER_TOKENS)
                work += tokens * parameters
                seconds += made["seconds"]
    return work / seconds if seconds else None


def plan(config: study.Config, rate: float = RATE) -> Iterator[Stage]:
    """The stages of a study, model by model, then what is made of all of them."""
    covered = study.cells(config)
    for model in study.models_in(covered):
        entry = config["models"][model]
        yield _weights(model, entry)
        memory = needed_mb(entry) if parameters_of(entry) else None
        for environment in (name for one, name in covered if one == model):
            for probe in study.probes_of(config, model, environment):
                yield _scoring(config, probe, model, environment, rate, memory)
            yield _checking(config, model, environment, rate, memory)
        for environment in (name for one, name in rollout_config.cells(config) if one == model):
            yield from _acting(config, model, environment, rate, memory)
    seconds = len(covered) * ANALYSIS * config["statistics"]["resamples"] / 10_000 + PAGES
    made = [
        *(
            f"results/{part}/{m}/{e}.parquet"
            for m, e in covered
            for part in ("measures", "estimates")
        ),
        "results/tables/estimates.csv",
        f"results/figures/{catalogue.figure_stems(study.outline(config))[0]}.svg",
        "results/report.html",
    ]
    ready = sum(Path(path).exists() for path in made)
    yield Stage("all", "measures, estimates, pages", len(made), seconds, 700, 5, ready)


def _weights(model: str, entry: Mapping[str, Any]) -> Stage:
    source = entry["source"]
    parameters = parameters_of(entry)
    present = bool(weight_files(folder_of(source)))
    kind, _, name = source.partition(":")
    width = 4 if kind == "bundled" and name in BUNDLES else 2  # a bundle is unpacked to float32
    disk = 0.0 if present else parameters and parameters * width / 1e6
    return Stage(model, "weights", 1, START, None, disk, int(present))


def _scoring(
    config: study.Config,
    probe: str,
    model: str,
    environment: str,
    rate: float,
    memory: float | None,
) -> Stage:
    items = config["probes"][probe]["items"][environment]
    jobs = study.n_shards(config, probe, environment)
    seconds = scoring_seconds(config, probe, model, environment, items, rate)
    conditions = len(config["probes"][probe]["conditions"])
    return Stage(
        model,
        f"{probe} on {environment}",
        jobs,
        None if seconds is None else seconds + (jobs - 1) * START,
        memory,
        items * conditions * SCORE_BYTES / 1e6,
        sum(_is_there(config, probe, model, environment, shard) for shard in range(jobs)),
    )


def _is_there(config: study.Config, probe: str, model: str, environment: str, shard: int) -> bool:
    paths = study.shard_files(config, probe, model, environment, shard)
    return all(Path(path).exists() for path in paths)


def _checking(
    config: study.Config, model: str, environment: str, rate: float, memory: float | None
) -> Stage:
    parameters = parameters_of(config["models"][model])
    kind = config["environments"][environment]["kind"]
    tokens = config["checks"]["pairs"] * CONTEXT.get(kind, max(CONTEXT.values()))
    seconds = parameters and START + tokens * parameters / rate
    ready = Path(f"results/checks/{model}/{environment}.json").exists()
    return Stage(model, f"check on {environment}", 1, seconds, memory, 0, int(ready))


def _acting(
    config: study.Config, model: str, environment: str, rate: float, memory: float | None
) -> Iterator[Stage]:
    """The rollouts of a model on an environment, and what goes on from their first failures."""
    parameters = parameters_of(config["models"][model])
    tasks = config["rollouts"][environment]["tasks"]
    for kind in ("rollouts", "branches"):
        files = rollout_config.files(config, kind, model, environment)
        tokens = tasks * rollout_config.steps(config, environment, kind) * TURN
        seconds = parameters and len(files) * (START + tokens * parameters / rate)
        ready = sum(Path("results", path).exists() for path in files)
        yield Stage(model, f"{kind} on {environment}", len(files), seconds, memory, 1, ready)


@dataclass(frozen=True)
class Machine:
    """What a study can use: CPU cores, and MB of memory and of free disk."""

    cores: int
    memory: float
    disk: float

    @classmethod
    def here(cls) -> Machine:
        usable = getattr(os, "sched_getaffinity", None)  # what a scheduler left to this process
        return cls(
            len(usable(0)) if usable else os.cpu_count() or 1,
            psutil.virtual_memory().total / 1e6,
            shutil.disk_usage(".").free / 1e6,
        )
