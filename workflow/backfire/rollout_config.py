"""The config's `rollouts`: which models act where, under which harnesses, and how often."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from backfire.environments import KINDS
from backfire.harnesses import GREEDY, HARNESSES, REFERENCE

Config = Mapping[str, Any]

PLAYABLE = ("toolshed", "coderepair")
"""The kinds of environment that have a playground."""


TABLES = (
    "table8",
    "table9",
    "rollout_faults",
    "table8_contrasts",
    "branches",
    "branches_contrasts",
)
"""The tables of each environment, by the stem of their files less its name."""

OVERALL_TABLES = ("own_failures", "rollout_families", "rollout_models", "rollout_speed")
FIGURES = ("rollouts", "retries", "own_failures")


def table_stems(config: Config) -> list[str]:
    """The stems of all table files, from the configuration alone."""
    environments = config.get("rollouts", {})
    stems = [f"{table}_{environment}" for environment in environments for table in TABLES]
    return [*stems, *(OVERALL_TABLES if environments else ())]


def figure_stems(config: Config) -> list[str]:
    """The stems of all figure files, from the configuration alone."""
    return list(FIGURES) if config.get("rollouts") else []


def package(config: Config, environment: str) -> str:
    """The module that decides how an environment is played."""
    return f"{KINDS[config['environments'][environment]['kind']].package}.rollouts"


def temperature(config: Config, environment: str, decoding: str) -> float:
    """The temperature of a decoding; 0 is greedy."""
    return 0.0 if decoding == GREEDY else float(config["rollouts"][environment]["temperature"])


def cells(config: Config) -> list[tuple[str, str]]:
    """Every (model, environment) with rollouts, in the order of the configuration."""
    return [
        (model, environment)
        for environment, entry in config.get("rollouts", {}).items()
        for model in entry.get("models", config["models"])
    ]


def plan(config: Config, environment: str) -> dict[str, Any]:
    """What decides where the rollouts of an environment begin."""
    entry = config["rollouts"][environment]
    return {key: entry[key] for key in ("demonstrations", "tasks")}


def harnesses(config: Config, environment: str) -> list[str]:
    return list(config["rollouts"][environment].get("harnesses", HARNESSES))


def decodings(config: Config, environment: str, study: str) -> list[str]:
    """`greedy`, then a name for each sample; `study` is `rollouts` or `branches`."""
    entry = config["rollouts"][environment]
    samples = entry["branches"]["samples"] if study == "branches" else entry["samples"]
    return [GREEDY, *(f"seed{number}" for number in range(1, samples + 1))]


def steps(config: Config, environment: str, study: str) -> int:
    """The most turns of a rollout, or of a branch."""
    entry = config["rollouts"][environment]
    found: int = entry["branches"]["attempts"] if study == "branches" else entry["steps"]
    return found


def files(config: Config, study: str, model: str, environment: str) -> list[str]:
    """The step tables of a model on an environment, below the results folder.

    Args:
        study: `rollouts` or `branches`.
    """
    return [
        f"{study}/{model}/{environment}/{harness}/{decoding}.parquet"
        for harness in harnesses(config, environment)
        for decoding in decodings(config, environment, study)
    ]


def outline(config: Config) -> dict[str, Any]:
    """What is shown of rollouts depends on this part of the configuration, and reads as it."""
    return {"models": list(config["models"]), "rollouts": config.get("rollouts", {})}


def faults(config: Config) -> Iterator[str]:
    """Names under `rollouts` that nothing in the library or the configuration answers to."""
    for environment, entry in config.get("rollouts", {}).items():
        where = f"rollouts.{environment}"
        known = config["environments"].get(environment)
        if known is None:
            names = ", ".join(config["environments"])
            yield f"{where}: unknown environment {environment!r}; known are {names}"
        elif known["kind"] in KINDS and known["kind"] not in PLAYABLE:
            kinds = ", ".join(PLAYABLE)
            yield f"{where}: kind {known['kind']} cannot be played; kinds that can are {kinds}"
        for harness in entry.get("harnesses", []):
            if harness not in HARNESSES:
                names = ", ".join(HARNESSES)
                yield f"{where}.harnesses: unknown harness {harness!r}; known are {names}"
        if REFERENCE not in entry.get("harnesses", [REFERENCE]):
            yield f"{where}.harnesses: {REFERENCE!r} is missing; the others are compared with it"
        for model in entry.get("models", []):
            if model not in config["models"]:
                names = ", ".join(config["models"])
                yield f"{where}.models: unknown model {model!r}; known are {names}"
