"""How much memory a model takes, and which models of a study the machine can hold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any

from backfire.models import count_parameters, folder_of

_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}
_SLACK = 1.2
_WORK_MB = 2000  # imports and activations: 1,200 under the 135 million parameters of SmolLM2
_UNKNOWN_MB = 4000


def parameters(model: Mapping[str, Any]) -> int | None:
    """How many a configured model has: counted if it is on disk, or else as declared."""
    return count_parameters(folder_of(model["source"])) or model.get("parameters")


def needed_mb(model: Mapping[str, Any]) -> int:
    """What a scoring job of a configured model takes at its peak, in MB, generously."""
    count = parameters(model)
    if count is None:
        return _UNKNOWN_MB
    size = count * _BYTES.get(model.get("dtype", "float32"), 4)
    return round(_WORK_MB + _SLACK * size / 1e6)


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
