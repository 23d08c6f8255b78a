"""GGUF files as transformers folders: float32 safetensors, tokenizer, chat template.

The conversion goes tensor by tensor through the `gguf` package. transformers' own GGUF
loader is not used: it loses the digit-splitting pre-tokenizer, so that runs of spaces
before digits get other ids.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import numpy.typing as npt
from safetensors.numpy import save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from backfire.errors import UserError
from backfire.storage import replacing, write_json

Array = npt.NDArray[Any]

_TENSORS = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
_BLOCK = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_CONTROL_TOKEN = 3
"""`gguf.TokenType.CONTROL`: chat markers and the like, never made from ordinary text."""


def convert(source: Path, folder: Path) -> None:
    """Write `source` (a GGUF file) as a transformers folder of float32 weights.

    Raises:
        UserError: an architecture or pre-tokenizer that is not known here.
    """
    reader = gguf.GGUFReader(source)

    def value(key: str) -> Any:
        return reader.fields[key].contents()

    architecture = value("general.architecture")
    if architecture != "llama":
        raise UserError(f"{source}: GGUF architecture is {architecture!r}; known is 'llama'")
    config = _llama_config(value, tied="output.weight" not in {t.name for t in reader.tensors})
    with replacing(folder) as temporary:
        temporary.mkdir()
        weights = {}
        for tensor in reader.tensors:
            name = _tensor_name(tensor.name)
            array = gguf.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
            if name.endswith("q_proj.weight"):
                array = _undo_rotary_order(array, config["num_attention_heads"])
            elif name.endswith("k_proj.weight"):
                array = _undo_rotary_order(array, config["num_key_value_heads"])
            weights[name] = np.ascontiguousarray(array)
        save_file(weights, temporary / "model.safetensors", metadata={"format": "pt"})
        (temporary / "model.safetensors").chmod(0o644)
        write_json(temporary / "config.json", config)
        _tokenizer(value, source).save(str(temporary / "tokenizer.json"))
        write_json(temporary / "tokenizer_config.json", _tokenizer_config(value))
        write_json(
            temporary / "generation_config.json",
            {key: config[key] for key in ("bos_token_id", "eos_token_id", "pad_token_id")},
        )
        file_type = gguf.LlamaFileType(value("general.file_type")).name
        write_json(
            temporary / "weights.json",
            {"file_type": file_type.removeprefix("MOSTLY_"), "name": value("general.name")},
        )


def _tensor_name(name: str) -> str:
    if name in _TENSORS:
        return _TENSORS[name]
    _, block, part, kind = name.split(".")
    return f"model.layers.{block}.{_BLOCK[part]}.{kind}"


def _undo_rotary_order(weight: Array, heads: int) -> Array:
    """llama.cpp interleaves the two rotary halves of each head; transformers keeps them apart."""
    rows, columns = weight.shape
    return weight.reshape(heads, rows // heads // 2, 2, columns).swapaxes(1, 2).reshape(rows, -1)


def _llama_config(value: Callable[[str], Any], tied: bool) -> dict[str, Any]:
    # The GGUF keeps the norm's epsilon in float32; the shortest decimal is what was meant.
    epsilon = float(str(np.float32(value("llama.attention.layer_norm_rms_epsilon"))))
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": value("llama.embedding_length"),
        "intermediate_size": value("llama.feed_forward_length"),
        "num_hidden_layers": value("llama.block_count"),
        "num_attention_heads": value("llama.attention.head_count"),
        "num_key_value_heads": value("llama.attention.head_count_kv"),
        "head_dim": value("llama.rope.dimension_count"),
        "hidden_act": "silu",
        "rms_norm_eps": epsilon,
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": value("llama.rope.freq_base"),
        },
        "max_position_embeddings": value("llama.context_length"),
        "vocab_size": value("llama.vocab_size"),
        "tie_word_embeddings": tied,
        "bos_token_id": value("tokenizer.ggml.bos_token_id"),
        "eos_token_id": value("tokenizer.ggml.eos_token_id"),
        "pad_token_id": value("tokenizer.ggml.padding_token_id"),
        "attention_bias": False,
        "mlp_bias": False,
        "dtype": "float32",
    }


def _tokenizer(value: Callable[[str], Any], source: Path) -> Tokenizer:
    kind = value("tokenizer.ggml.pre")
    if kind != "smollm":
        raise UserError(f"{source}: GGUF pre-tokenizer is {kind!r}; known is 'smollm'")
    tokens = value("tokenizer.ggml.tokens")
    merges = [tuple(merge.split(" ")) for merge in value("tokenizer.ggml.merges")]
    vocabulary = {token: number for number, token in enumerate(tokens)}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    types = value("tokenizer.ggml.token_type")
    tokenizer.add_special_tokens(
        [
            AddedToken(token, special=True, normalized=False)
            for token, kind in zip(tokens, types, strict=True)
            if kind == _CONTROL_TOKEN
        ]
    )
    return tokenizer


def _tokenizer_config(value: Callable[[str], Any]) -> dict[str, Any]:
    tokens = value("tokenizer.ggml.tokens")

    def token(kind: str) -> str:
        text: str = tokens[value(f"tokenizer.ggml.{kind}_token_id")]
        return text

    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": token("bos"),
        "eos_token": token("eos"),
        "unk_token": token("unknown"),
        "pad_token": token("padding"),
        "add_bos_token": value("tokenizer.ggml.add_bos_token"),
        "model_max_length": value("llama.context_length"),
        "clean_up_tokenization_spaces": False,
        "chat_template": value("tokenizer.chat_template"),
    }
