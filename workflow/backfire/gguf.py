"""GGUF files as transformers folders: float32 safetensors, tokenizer, chat template.

The conversion is exact or refused: every tensor of the file has one place in the network, every
parameter comes from the file, and whatever else the file says about the network is understood.
transformers' own GGUF loader is not used: it needs `accelerate`, knows no OLMo 2, passes over
the frequencies by which Llama 3 stretches its positions, and loses SmolLM2's splitting of digits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import numpy.typing as npt
from safetensors.numpy import save_file

from backfire.errors import UserError
from backfire.gguf_tokenizer import build_tokenizer, tokenizer_config
from backfire.storage import replacing, write_json

Array = npt.NDArray[Any]

ARCHITECTURES: Mapping[str, tuple[str, str]] = {
    "llama": ("llama", "LlamaForCausalLM"),
    "qwen2": ("qwen2", "Qwen2ForCausalLM"),
    "qwen3": ("qwen3", "Qwen3ForCausalLM"),
    "gemma3": ("gemma3_text", "Gemma3ForCausalLM"),
    "olmo2": ("olmo2", "Olmo2ForCausalLM"),
}
"""By the name in the file: transformers' model type and class."""

_LLAMA3 = {
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}
"""How all models of Llama 3.1 to 3.3 stretch their positions; the factor differs."""

_ROPE_FREQUENCIES = "rope_freqs.weight"


class Metadata:
    """What a GGUF file says of itself, and which of its keys have been asked for."""

    def __init__(self, reader: gguf.GGUFReader, source: Path) -> None:
        self.source, self._fields = source, reader.fields
        self._asked: set[str] = set()
        self.architecture: str = self("general.architecture")

    def __call__(self, key: str, *default: Any) -> Any:
        """The value of a key, or the default where one is given.

        Raises:
            UserError: the file lacks the key.
        """
        self._asked.add(key)
        if key in self._fields:
            return self._fields[key].contents()
        if default:
            return default[0]
        raise UserError(f"{self.source}: the GGUF file has no key {key!r}")

    def own(self, key: str, *default: Any) -> Any:
        """The value of a key of the architecture."""
        return self(f"{self.architecture}.{key}", *default)

    def unread(self) -> list[str]:
        """Keys of the architecture that nobody has asked for."""
        prefix = f"{self.architecture}."
        return sorted(key for key in set(self._fields) - self._asked if key.startswith(prefix))


def convert(source: Path, folder: Path) -> None:
    """Write `source` (a GGUF file) as a transformers folder of float32 weights.

    Raises:
        UserError: no GGUF file, or one whose network or tokenizer is not known here.
    """
    try:
        reader = gguf.GGUFReader(source)
    except (ValueError, OSError) as error:
        raise UserError(f"{source}: cannot be read as a GGUF file ({error})") from error
    value = Metadata(reader, source)
    if value.architecture not in ARCHITECTURES:
        known = ", ".join(ARCHITECTURES)
        raise UserError(f"{source}: GGUF architecture is {value.architecture!r}; known are {known}")
    if value("split.count", 1) > 1:
        raise UserError(f"{source}: one of several parts; join them with llama-gguf-split --merge")
    tensors = {tensor.name: tensor for tensor in reader.tensors}
    config = read_config(value, tensors)
    with replacing(folder) as temporary:
        temporary.mkdir()
        weights = read_weights(value, tensors, config)
        save_file(weights, temporary / "model.safetensors", metadata={"format": "pt"})
        (temporary / "model.safetensors").chmod(0o644)
        write_json(temporary / "config.json", config)
        build_tokenizer(source, value).save(str(temporary / "tokenizer.json"))
        write_json(temporary / "tokenizer_config.json", tokenizer_config(value))
        special = ("bos_token_id", "eos_token_id", "pad_token_id")
        write_json(
            temporary / "generation_config.json",
            {key: config[key] for key in special if key in config},
        )
        write_json(
            temporary / "weights.json",
            {"file_type": _file_type(value, tensors.values()), "name": value("general.name", None)},
        )


def _file_type(value: Metadata, tensors: Iterable[Any]) -> str:
    """The number format of most weights, such as Q4_1."""
    stated = value("general.file_type", None)
    if stated is not None:
        name: str = gguf.LlamaFileType(stated).name
        return name.removeprefix("MOSTLY_").removeprefix("ALL_")
    sizes: Counter[str] = Counter()
    for tensor in tensors:
        sizes[tensor.tensor_type.name] += int(tensor.n_elements)
    return sizes.most_common(1)[0][0]


def read_config(value: Metadata, tensors: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration of the network, for transformers.

    Raises:
        UserError: the file says something of the network that is not known here.
    """
    model_type, class_name = ARCHITECTURES[value.architecture]
    hidden, heads = value.own("embedding_length"), value.own("attention.head_count")
    rotary = value.own("rope.dimension_count", hidden // heads)
    head_dim = value.own("attention.key_length", rotary)
    if {rotary, value.own("attention.value_length", head_dim)} != {head_dim}:
        raise UserError(f"{value.source}: keys, values and positions of different sizes")
    config = {
        "architectures": [class_name],
        "model_type": model_type,
        "hidden_size": hidden,
        "intermediate_size": value.own("feed_forward_length"),
        "num_hidden_layers": value.own("block_count"),
        "num_attention_heads": heads,
        "num_key_value_heads": value.own("attention.head_count_kv", heads),
        "head_dim": head_dim,
        "rms_norm_eps": _decimal(value.own("attention.layer_norm_rms_epsilon")),
        "max_position_embeddings": value.own("context_length"),
        "vocab_size": int(tensors["token_embd.weight"].shape[1]),
        "tie_word_embeddings": "output.weight" not in tensors,
        **_rope(value, tensors, head_dim),
        **_token_ids(value),
        "dtype": "float32",
    }
    value.own("vocab_size", None)
    if model_type == "llama":
        config |= {"hidden_act": "silu", "attention_bias": False, "mlp_bias": False}
    if model_type == "gemma3_text":
        pattern = value.own("attention.sliding_window_pattern", 6)
        if isinstance(pattern, int):
            pattern = [(layer + 1) % pattern != 0 for layer in range(config["num_hidden_layers"])]
        config |= {
            "sliding_window": value.own("attention.sliding_window"),
            "layer_types": [("full", "sliding")[bool(slides)] + "_attention" for slides in pattern],
            "query_pre_attn_scalar": head_dim,
        }
    if unread := value.unread():
        raise UserError(f"{value.source}: {', '.join(unread)}: not known here, so not converted")
    return config


def _decimal(number: float) -> float:
    """The shortest decimal of a float32: what was meant before it was rounded."""
    return float(str(np.float32(number)))


def _token_ids(value: Metadata) -> dict[str, int]:
    names = {"bos": "bos", "eos": "eos", "padding": "pad"}
    ids = {
        f"{ours}_token_id": value(f"tokenizer.ggml.{theirs}_token_id", None)
        for theirs, ours in names.items()
    }
    return {name: number for name, number in ids.items() if number is not None}


def _rope(value: Metadata, tensors: Mapping[str, Any], head_dim: int) -> dict[str, Any]:
    """The key `rope_parameters`: how positions are written into queries and keys."""
    scaling = value.own("rope.scaling.type", "none")
    if scaling != "none":
        raise UserError(f"{value.source}: positions are scaled ({scaling}): not known here")
    base = value.own("rope.freq_base", 10_000.0)
    plain = {"rope_type": "default", "rope_theta": base}
    if value.architecture == "gemma3":
        local = value.own("rope.freq_base_swa", 10_000.0)
        return {
            "rope_parameters": {
                "full_attention": plain,
                "sliding_attention": {**plain, "rope_theta": local},
            }
        }
    if _ROPE_FREQUENCIES not in tensors:
        return {"rope_parameters": plain}
    factors = np.array(tensors[_ROPE_FREQUENCIES].data)
    stretched = {**plain, **_LLAMA3, "rope_type": "llama3", "factor": float(factors.max())}
    if not np.allclose(_llama3_factors(stretched, head_dim), factors, rtol=1e-4):
        raise UserError(f"{value.source}: {_ROPE_FREQUENCIES} is not that of a Llama 3")
    return {"rope_parameters": stretched}


def _llama3_factors(rope: Mapping[str, Any], head_dim: int) -> Array:
    """By what each frequency is divided, `(head_dim / 2,)`, as transformers has it."""
    from transformers import LlamaConfig
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    config = LlamaConfig(
        head_dim=head_dim, rope_parameters=dict(rope), max_position_embeddings=131_072
    )
    stretched, _ = ROPE_INIT_FUNCTIONS["llama3"](config, "cpu")
    unstretched = rope["rope_theta"] ** -(np.arange(0, head_dim, 2) / head_dim)
    factors: Array = unstretched / stretched.numpy()
    return factors


def read_weights(
    value: Metadata, tensors: Mapping[str, Any], config: Mapping[str, Any]
) -> dict[str, Array]:
    """Every parameter of the network in float32, by transformers' name.

    Raises:
        UserError: the tensors of the file are not those of the network.
    """
    shapes = _parameters(config)
    architecture = next(
        a for a, name in gguf.MODEL_ARCH_NAMES.items() if name == value.architecture
    )
    names = gguf.get_tensor_name_map(architecture, config["num_hidden_layers"])
    places = {str(names.get_name(name, (".weight", ".bias"))): name for name in shapes}
    found = set(tensors) - {_ROPE_FREQUENCIES}
    if wrong := sorted(found ^ set(places)):
        raise UserError(
            f"{value.source}: {len(wrong)} tensors are missing or have no place in "
            f"{config['architectures'][0]}, such as {wrong[0]}"
        )
    weights = {}
    for theirs, ours in places.items():
        tensor = tensors[theirs]
        array = gguf.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        if array.shape != shapes[ours]:
            raise UserError(
                f"{value.source}: {theirs} is {array.shape}, {shapes[ours]} is expected"
            )
        weights[ours] = np.ascontiguousarray(_undo(value.architecture, ours, array, config))
    return weights


def _parameters(config: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """The names and shapes of a network's parameters, tied ones once."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    with torch.device("meta"):
        network: Any = AutoModelForCausalLM.from_config(  # type: ignore[no-untyped-call]
            AutoConfig.for_model(**config)
        )
    return {name: tuple(parameter.shape) for name, parameter in network.named_parameters()}


def _undo(architecture: str, name: str, array: Array, config: Mapping[str, Any]) -> Array:
    """Undo what llama.cpp's converter does to the numbers of an architecture."""
    if architecture == "llama" and name.endswith("q_proj.weight"):
        return _undo_rotary_order(array, config["num_attention_heads"])
    if architecture == "llama" and name.endswith("k_proj.weight"):
        return _undo_rotary_order(array, config["num_key_value_heads"])
    if architecture == "gemma3" and name.endswith("norm.weight"):
        return array - np.float32(1)  # there a norm multiplies by its weight, not by one plus it
    return array


def _undo_rotary_order(weight: Array, heads: int) -> Array:
    """llama.cpp interleaves the two rotary halves of each head; transformers keeps them apart."""
    rows, columns = weight.shape
    return weight.reshape(heads, rows // heads // 2, 2, columns).swapaxes(1, 2).reshape(rows, -1)
