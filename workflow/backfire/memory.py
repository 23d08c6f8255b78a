"""How much memory a model takes, and which models of a study the machine can hold."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, MutableMapping
from functools import cache
from math import ceil
from typing import Any

from backfire.models import count_parameters, dtype_on, folder_of, weight_files

_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}
_COPIES = 2  # a CPU holds the network's weights and the scorer's, which are packed otherwise
_WORK_MB = 700  # imports and activations, measured under SmolLM2-135M
_UNKNOWN_MB = 4000


def parameters_of(model: Mapping[str, Any]) -> int | None:
    """How many a configured model has: counted on disk, as declared, or read off its name."""
    return counted(folder_of(model["source"])) or model.get("parameters") or _named(model)


@cache
def counted(folder: str) -> int | None:
    """The parameters of the weights in a folder, None where there are none."""
    return count_parameters(folder) if weight_files(folder) else None


def _named(model: Mapping[str, Any]) -> int | None:
    sizes = re.findall(r"(?<![\w.])(\d+(?:\.\d+)?)([mb])(?![a-z0-9])", model["source"].lower())
    if not sizes:
        return None
    number, unit = sizes[-1]
    return round(float(number) * {"m": 1e6, "b": 1e9}[unit])


def needed_mb(model: Mapping[str, Any]) -> int:
    """What a scoring job of a configured model takes at its peak, in MB."""
    count = parameters_of(model)
    if count is None:
        return _UNKNOWN_MB
    dtype = dtype_on("cpu", model.get("dtype", "float32"))
    return ceil(_WORK_MB + _COPIES * count * _BYTES[dtype] / 1e6)


def leave_out(
    config: MutableMapping[str, Any], needs: Mapping[str, int], available_mb: int
) -> Iterator[str]:
    """Take the models that need more than there is out of a config; a line about each."""
    for name in [name for name in config["models"] if needs[name] > available_mb]:
        yield (
            f"{name} needs about {needs[name]:,} MB of memory and there are {available_mb:,}: left "
            f"out; --resources mem_mb={needs[name]} runs it all the same"
        )
        del config["models"][name]
        for section in ("environments", "probes", "rollouts"):
            for key, entry in list(config.get(section, {}).items()):
                if name in entry.get("models", []):
                    entry["models"].remove(name)
                    if not entry["models"]:
                        del config[section][key]
