"""What a checked configuration says, by functions; `config_file` reads and checks it."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from math import ceil
from typing import Any

from backfire import rollout_config
from backfire.environments import KINDS
from backfire.models import converted_name, is_gguf

Config = Mapping[str, Any]


def own_conditions(config: Config, probe: str | None = None) -> dict[str, Any]:
    """The conditions of the user's own, or those of one probe, sorted by name."""
    entries = config.get("conditions", {})
    wanted = entries if probe is None else config["probes"][probe]["conditions"]
    return {name: entries[name] for name in sorted(entries) if name in wanted}


def gguf_files(config: Config) -> dict[str, str]:
    """The GGUF files of the user's own, by the name of the folder each is converted into."""
    paths = [model["source"].removeprefix("path:") for model in config["models"].values()]
    return {converted_name(path): path for path in paths if is_gguf(path)}


def models_of(config: Config, probe: str, environment: str | None = None) -> list[str]:
    """The models that a probe runs on, or those of them that an environment takes."""
    models = list(config["probes"][probe].get("models", config["models"]))
    taken = config["environments"][environment].get("models", models) if environment else models
    return [model for model in models if model in taken]


def hub_models(config: Config) -> list[str]:
    """The models to be had from the hub, by their names there; see `pins`."""
    sources = [model["source"].partition(":") for model in config["models"].values()]
    return [rest for kind, _, rest in sources if kind == "hub"]


def identity(config: Config, model: str) -> dict[str, Any]:
    """What decides what a model computes."""
    entry = config["models"][model]
    return {key: entry[key] for key in sorted(entry) if key not in ("parameters", "family")}


def pool_settings(config: Config, environment: str) -> dict[str, Any]:
    """What the pool of an environment is built from, besides the seed."""
    entry = config["environments"][environment]
    return {key: entry[key] for key in sorted(entry) if key not in ("per_task", "models")}


def pool_module(config: Config, environment: str) -> str:
    """The module that decides what the pool holds."""
    return f"{KINDS[config['environments'][environment]['kind']].package}.pool"


def pool_inputs(config: Config, environment: str) -> list[str]:
    """The files that the pool is built from."""
    kind = KINDS[config["environments"][environment]["kind"]]
    return kind.files(pool_settings(config, environment))


def statistics(config: Config) -> dict[str, Any]:
    """How intervals are made, with the seed."""
    settings = config["statistics"]
    return {
        "seed": config["seed"],
        "resamples": settings["resamples"],
        "confidence": settings["confidence"],
    }


def outline(config: Config) -> dict[str, Any]:
    """What the tables, figures and the report need to know of the study; see `results.Results`."""
    published_as = {
        name: model["published_as"]
        for name, model in config["models"].items()
        if "published_as" in model
    }
    return {
        "models": list(config["models"]),
        "cells": [list(cell) for cell in cells(config)],
        "kinds": {name: entry["kind"] for name, entry in config["environments"].items()},
        "probes": {name: entry["conditions"] for name, entry in config["probes"].items()},
        "shards": {
            name: {
                environment: n_shards(config, name, environment) for environment in entry["items"]
            }
            for name, entry in config["probes"].items()
        },
        "own_conditions": own_conditions(config),
        "statistics": statistics(config),
        "equivalence_margin": config["statistics"].get("equivalence_margin"),
        "published_as": published_as,
        "families": {
            name: model["family"] for name, model in config["models"].items() if "family" in model
        },
        "rollouts": [list(cell) for cell in rollout_config.cells(config)],
        "margins": config.get("replication", {}).get("margins", {}),
    }


def n_shards(config: Config, probe: str, environment: str) -> int:
    """The number of scoring jobs, from the configuration alone."""
    items: int = config["probes"][probe]["items"][environment]
    shard_size: int = config["shard_size"]
    return ceil(items / shard_size)


def score_file(probe: str, model: str, environment: str, condition: str, shard: object) -> str:
    """Where the scores of a shard under one condition lie."""
    return f"results/scores/{probe}/{model}/{environment}/{condition}/{shard}.parquet"


def shard_files(
    config: Config, probe: str, model: str, environment: str, shard: object
) -> list[str]:
    """The files of a shard, one for each condition of its probe."""
    return [
        score_file(probe, model, environment, condition, shard)
        for condition in config["probes"][probe]["conditions"]
    ]


def cells(config: Config) -> list[tuple[str, str]]:
    """Every (model, environment) that some probe covers, in the order of the configuration."""
    covered = {
        (model, environment)
        for probe, entry in config["probes"].items()
        for environment in entry["items"]
        for model in models_of(config, probe, environment)
    }
    return [
        (model, environment)
        for model in config["models"]
        for environment in config["environments"]
        if (model, environment) in covered
    ]


def models_in(cells: Iterable[tuple[str, str]]) -> list[str]:
    return list(dict.fromkeys(model for model, _ in cells))


def environments_in(cells: Iterable[tuple[str, str]]) -> list[str]:
    return list(dict.fromkeys(environment for _, environment in cells))


def probes_of(config: Config, model: str, environment: str) -> list[str]:
    """The probes that cover a model on an environment."""
    return [
        probe
        for probe, entry in config["probes"].items()
        if environment in entry["items"] and model in models_of(config, probe, environment)
    ]


def conditions_of(config: Config) -> list[str]:
    """Every condition that some probe scores."""
    return sorted({name for entry in config["probes"].values() for name in entry["conditions"]})


def one_of(names: Collection[str]) -> str:
    """A regular expression that matches exactly these names."""
    return "|".join(re.escape(name) for name in names)
