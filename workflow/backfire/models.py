"""Models: where they come from, what identifies them, and how they are loaded."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import safe_open

from backfire import pins
from backfire.bundles import sha256_of
from backfire.errors import UserError
from backfire.storage import read_json


def folder_of(source: str) -> str:
    """The folder in which the model of a configured source lies, or will lie."""
    kind, _, rest = source.partition(":")
    if kind == "path" and is_gguf(rest):
        return f"resources/models/gguf/{converted_name(rest)}"
    return rest if kind == "path" else f"resources/models/{kind}/{rest}"


def is_gguf(path: str) -> bool:
    """Whether a path names a GGUF file, which is converted before it is read."""
    return path.lower().endswith(".gguf")


def converted_name(path: str) -> str:
    """The name of the folder that a GGUF file is converted into, another for every path."""
    return path.replace("/", "--")


def inputs_of(source: str) -> list[str]:
    """What a rule that reads the model depends on: the made folder, or the user's own files."""
    folder = folder_of(source)
    if source.startswith("path:") and not is_gguf(source):
        return [str(path) for path in model_files(folder)]
    return [folder]


def weight_files(folder: str | Path) -> list[Path]:
    """The safetensors files of a model folder."""
    return sorted(Path(folder).glob("*.safetensors"))


def model_files(folder: str | Path) -> list[Path]:
    """The files that decide what a model folder computes: weights, config, tokenizer, template."""
    found = [
        path
        for pattern in ("*.safetensors", "*.json", "*.jinja", "*.model", "merges.txt", "vocab.txt")
        for path in Path(folder).glob(pattern)
    ]
    return sorted(found)


def fingerprint(folder: str | Path) -> str:
    """The SHA-256 over names and contents of a model's files."""
    digest = hashlib.sha256()
    for path in model_files(folder):
        digest.update(f"{path.name}\0{sha256_of(path)}\n".encode())
    return digest.hexdigest()


def count_parameters(folder: str | Path) -> int:
    """The number of parameters on disk; tied embeddings are stored, and counted, once."""
    return sum(
        int(np.prod(weights.get_slice(name).get_shape()))
        for weights in _open_weights(folder)
        for name in weights.keys()  # noqa: SIM118  (not a mapping)
    )


def _open_weights(folder: str | Path) -> Iterator[Any]:
    for path in weight_files(folder):
        with safe_open(path, framework="numpy") as weights:
            yield weights


def window(folder: str | Path) -> int:
    """How many positions the model can see, in tokens."""
    from transformers import AutoConfig

    config = AutoConfig.from_pretrained(folder, local_files_only=True)
    return int(config.get_text_config().max_position_embeddings)


def weights_label(folder: str | Path, dtype: str) -> str:
    """How the weights are named wherever a number stands, such as `4-bit Q4_1 weights`."""
    note = Path(folder) / "weights.json"
    if not note.exists():
        return f"{dtype} weights"
    kind = read_json(note)["file_type"]
    bits = {"Q4": "4-bit ", "Q5": "5-bit ", "Q6": "6-bit ", "Q8": "8-bit "}.get(kind[:2], "")
    return f"{bits}{kind} weights"


def check_folder(folder: str | Path) -> None:
    """
    Raises:
        UserError: the folder is not a transformers model with safetensors weights.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise UserError(
            f"{folder}: no such folder; `path:` names a transformers model folder or a GGUF file"
        )
    for name in ("config.json", "tokenizer_config.json"):
        if not (folder / name).exists():
            raise UserError(f"{folder}: {name} is missing; `path:` names a transformers folder")
    if not weight_files(folder):
        raise UserError(f"{folder}: no *.safetensors file; convert the weights first")


def card(folder: str | Path, model: Mapping[str, Any], device: str = "cpu") -> dict[str, Any]:
    """What identifies a configured model: fingerprint, size, dtype, template and its policy.

    Args:
        model: its entry in the config.
        device: as the config names it; `auto` is decided here, once for all jobs of the model.
    """
    from backfire.chat import Chat
    from backfire.chat_templates import OWN

    check_folder(folder)
    pin = pins.of_folder(folder)
    if pin is not None:
        pin.verify(folder)
    config = json.loads((Path(folder) / "config.json").read_text(encoding="utf-8"))
    device = device_of(device)
    dtype = dtype_on(device, model.get("dtype", "float32"))
    options, template = model.get("chat_template_options"), model.get("chat_template", OWN)
    chat = Chat.load(folder, options, template)
    return {
        "source": model["source"],
        "revision": pin.revision if pin is not None else None,
        "architecture": config["model_type"],
        "fingerprint": fingerprint(folder),
        "parameters": count_parameters(folder),
        "window": window(folder),
        "device": device,
        "dtype": dtype,
        "weights": weights_label(folder, dtype),
        "published_as": model.get("published_as"),
        "chat": chat.describe(),
    }


def device_of(wanted: str) -> str:
    """The device that `auto` stands for: CUDA or MPS where torch sees one, else the CPU."""
    if wanted != "auto":
        return wanted
    import torch

    found = torch.accelerator.current_accelerator(check_available=True)
    return found.type if found is not None and found.type in ("cuda", "mps") else "cpu"


def dtype_on(device: str, dtype: str | Mapping[str, str]) -> str:
    """The configured number format: one for all devices, or by device (float32 if absent)."""
    return dtype if isinstance(dtype, str) else dtype.get(device, "float32")


def load_network(folder: str | Path, dtype: str = "float32", device: str = "cpu") -> Any:
    """The causal language model of a folder, in eval mode, without gradients.

    Raises:
        UserError: torch sees no such device.
    """
    import torch
    from transformers import AutoModelForCausalLM
    from transformers.utils import logging

    there = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if not there.get(device, True):
        raise UserError(f"scoring.device: {device} is asked for and torch sees none; cpu is right")
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    network: Any = AutoModelForCausalLM.from_pretrained(
        folder, dtype=getattr(torch, dtype), local_files_only=True
    )
    return network.to(device).eval().requires_grad_(False)


def stop_ids(folder: str | Path, tokenizer: Any) -> frozenset[int]:
    """The tokens that end an assistant's turn: the tokenizer's and the generation config's."""
    ids = {tokenizer.eos_token_id}
    for name in ("generation_config.json", "config.json"):
        path = Path(folder) / name
        declared = read_json(path).get("eos_token_id") if path.exists() else None
        ids.update(declared if isinstance(declared, list) else [declared])
    return frozenset(ids - {None})
