"""The configuration: read, laid over the default one, and checked whole before anything runs."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml
from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError

from backfire import chat_templates, rollout_config, user_conditions
from backfire.bundles import BUNDLES
from backfire.conditions import CONDITIONS
from backfire.config import Config, models_of, own_conditions
from backfire.environments import KINDS
from backfire.environments.coderepair.tasks import FILES as PROBLEM_FILES
from backfire.errors import UserError
from backfire.examples import example_of
from backfire.models import check_folder, is_gguf

COMMON_KEYS = ("kind", "per_task", "models")
"""Keys that an environment of any kind may have."""

BASE = "config.yaml"
"""What a configuration that is no whole study is laid over."""

SCHEMA_PATH = Path(__file__).parents[1] / "schemas" / "config.schema.yaml"


def read(path: str | Path) -> Config:
    """The configuration of a file, laid over `BASE` if it does not stand alone, and checked.

    Raises:
        UserError: there is no such file, or one line for each fault in it.
    """
    config = _load(path)
    where = str(path)
    if not stands_alone(config) and Path(BASE).exists():
        config = _laid_over(_load(BASE), config)
        where += "" if where == BASE else f" over {BASE}"
    validate(config, where)
    return config


def _load(path: str | Path) -> Config:
    try:
        config: Config = yaml.safe_load(Path(path).read_text(encoding="utf-8")) or {}
    except (OSError, yaml.YAMLError) as error:
        raise UserError(f"{path}: {error}") from None
    return config


def stands_alone(config: Config) -> bool:
    """Whether a configuration is a whole study, and not a part to lay over another."""
    return all(part in config for part in ("models", "environments", "probes"))


def _laid_over(base: Any, top: Any) -> Any:
    """As Snakemake does it: key by key, at every depth."""
    if not (isinstance(base, Mapping) and isinstance(top, Mapping)):
        return top
    return {
        key: _laid_over(base[key], top[key])
        if key in base and key in top
        else top.get(key, base.get(key))
        for key in [*base, *(key for key in top if key not in base)]
    }


def validate(config: Config, where: str) -> None:
    """Check a configuration against the schema and against what the library knows.

    Raises:
        UserError: one line for each fault; `where` names the file.
    """
    schema = yaml.safe_load(SCHEMA_PATH.read_text(encoding="utf-8"))
    errors = sorted(Draft202012Validator(schema).iter_errors(config), key=lambda e: list(e.path))
    faults = [line for error in errors for line in _explain(error)] or list(_unknown(config))
    if faults:
        raise UserError("\n".join(f"{where}: {fault}" for fault in faults))


def _explain(error: ValidationError) -> Iterator[str]:
    key = ".".join(str(part) for part in error.absolute_path) or "top level"
    schema: Any = error.schema
    found: Any = error.instance
    if error.validator == "additionalProperties":
        known = schema["properties"]
        for name in found:
            if name not in known:
                yield f"{key}: unknown key {name!r}; {_suggest(name, known)}"
    elif error.validator == "required":
        # jsonschema reports each missing key apart, and names it in the message alone.
        yield f"{key}: key {error.message.split(' is a required')[0]} is missing"
    elif "propertyNames" in error.absolute_schema_path:
        yield f"{key}: name {found!r}; letters, digits, '.', '_', '+' and '-' are allowed"
    elif error.validator == "oneOf":
        names = " or ".join(repr(name) for each in schema["oneOf"] for name in each["required"])
        yield f"{key}: found {', '.join(map(repr, found)) or 'nothing'}; one of {names} is right"
    elif error.validator in ("pattern", "anyOf"):
        yield f"{key}: found {found!r}; right is {schema['description']}"
    else:
        yield f"{key}: {error.message}"


def _suggest(name: str, known: Collection[str]) -> str:
    close = difflib.get_close_matches(str(name), list(known), n=1)
    if close:
        return f"did you mean {close[0]!r}?"
    return f"known are {', '.join(sorted(known))}"


def _unknown(config: Config) -> Iterator[str]:
    """Names that nothing in the library or the configuration answers to."""
    for name, model in config["models"].items():
        kind, _, rest = model["source"].partition(":")
        if kind == "bundled" and rest not in BUNDLES:
            yield f"models.{name}.source: unknown bundle {rest!r}; {_suggest(rest, BUNDLES)}"
        if kind == "path":
            yield from _weights_faults(f"models.{name}.source", rest)
        for path in chat_templates.files(model.get("chat_template")):
            if not Path(path).is_file():
                yield (
                    f"models.{name}.chat_template: no such file {path!r}; plain or the path of a "
                    f"Jinja file is right, and paths start from {Path.cwd()}"
                )
    for name, environment in config["environments"].items():
        kind = environment["kind"]
        if kind not in KINDS:
            yield f"environments.{name}.kind: unknown kind {kind!r}; {_suggest(kind, KINDS)}"
            continue
        required, optional = KINDS[kind].required, KINDS[kind].optional
        for key in required:
            if key not in environment:
                yield f"environments.{name}: key {key!r} is missing; kind {kind} needs it"
        known = {*COMMON_KEYS, *required, *optional}
        for key in environment:
            if key not in known:
                yield f"environments.{name}: unknown key {key!r}; {_suggest(key, known)}"
        if kind == "coderepair" and environment.get("problems") not in (None, *PROBLEM_FILES):
            found = environment["problems"]
            hint = _suggest(found, PROBLEM_FILES)
            yield f"environments.{name}.problems: unknown problems {found!r}; {hint}"
        for model in environment.get("models", []):
            if model not in config["models"]:
                hint = _suggest(model, config["models"])
                yield f"environments.{name}.models: unknown model {model!r}; {hint}"
        if "path" in environment and not Path(environment["path"]).exists():
            path = environment["path"]
            yield f"environments.{name}.path: no such file {path!r}; paths start from {Path.cwd()}"
    own = own_conditions(config)
    known_conditions = {**CONDITIONS, **own}
    for probe, entry in config["probes"].items():
        for condition in entry["conditions"]:
            if condition not in known_conditions:
                hint = _suggest(condition, known_conditions)
                yield f"probes.{probe}.conditions: unknown condition {condition!r}; {hint}"
        for environment in entry["items"]:
            if environment not in config["environments"]:
                hint = _suggest(environment, config["environments"])
                yield f"probes.{probe}.items: unknown environment {environment!r}; {hint}"
        for model in entry.get("models", []):
            if model not in config["models"]:
                hint = _suggest(model, config["models"])
                yield f"probes.{probe}.models: unknown model {model!r}; {hint}"
        yield from _clashes(config, probe)
    yield from _broken_conditions(config)
    yield from rollout_config.faults(config)
    for condition in ("pre", "fail"):
        if condition not in config["probes"]["core"]["conditions"]:
            yield f"probes.core.conditions: {condition!r} is missing; every measure needs it"


def _weights_faults(key: str, path: str) -> Iterator[str]:
    """What is wrong with a path to weights of the user's own."""
    if not Path(path).exists():
        what = "file" if is_gguf(path) else "folder"
        yield f"{key}: no such {what} {path!r}; paths start from {Path.cwd()}"
    elif not is_gguf(path):
        try:
            check_folder(path)
        except UserError as error:
            yield f"{key}: {error}"


def _clashes(config: Config, probe: str) -> Iterator[str]:
    """A later probe draws a prefix of the core's items and repeats none of its conditions."""
    if probe == "core":
        return
    core = config["probes"]["core"]
    for condition in config["probes"][probe]["conditions"]:
        if condition in core["conditions"]:
            yield f"probes.{probe}.conditions: {condition!r} is scored by the core probe already"
    for model in models_of(config, probe):
        if model not in models_of(config, "core"):
            yield f"probes.{probe}.models: {model!r} is not among the core probe's models"
    for environment, count in config["probes"][probe]["items"].items():
        drawn = core["items"].get(environment, 0)
        if count > drawn:
            yield (
                f"probes.{probe}.items.{environment}: {count} items, and the core probe, whose "
                f"first items these are, draws {drawn}"
            )


def _broken_conditions(config: Config) -> Iterator[str]:
    """What is wrong with conditions of the user's own, tried on an item of each environment."""
    for name, entry in own_conditions(config).items():
        # A second check in a process that has registered the config's conditions finds its own.
        if name in CONDITIONS and CONDITIONS[name].kind != "own":
            yield f"conditions.{name}: there is a condition of that name; another name is right"
            continue
        probes = [probe for probe in config["probes"].values() if name in probe["conditions"]]
        used = dict.fromkeys(environment for probe in probes for environment in probe["items"])
        known = [config["environments"][one] for one in used if one in config["environments"]]
        examples = [item for one in known if (item := example_of(one)) is not None]
        yield from user_conditions.faults(name, entry, examples)
