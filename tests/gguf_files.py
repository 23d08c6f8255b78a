"""GGUF files of tiny models, written as llama.cpp's converter writes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gguf
import numpy as np
from tiny_models import VOCABULARY

LETTERS = "abcdefghijklmnopqrstuvwxyz()=.,"
SPACE = {"gpt2": "Ġ", "llama": "▁"}


def vocabulary(kind: str) -> tuple[list[str], list[int]]:
    """As many tokens as the tiny models have, and their types; three control tokens first."""
    words = ["ab", "abc", "cd", "abcd", SPACE[kind] + "ab"]
    tokens = ["<pad>", "<bos>", "<eos>", "<unk>", SPACE[kind], *LETTERS, *words]
    tokens += [f"<unused{number}>" for number in range(VOCABULARY - len(tokens))]
    types = [gguf.TokenType.NORMAL] * len(tokens)
    for number, token in enumerate(tokens):
        if token.startswith("<unused"):
            types[number] = gguf.TokenType.UNUSED
        elif token.startswith("<"):
            types[number] = gguf.TokenType.CONTROL
    return tokens, [int(one) for one in types]


def write_tokenizer(writer: gguf.GGUFWriter, kind: str, split: str) -> None:
    tokens, types = vocabulary(kind)
    writer.add_tokenizer_model(kind)
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    if kind == "gpt2":
        writer.add_tokenizer_pre(split)
        writer.add_token_merges(["a b", "c d", "ab cd", "ab c", "Ġ ab"])
    else:
        writer.add_token_scores([-float(number) for number in range(len(tokens))])
    writer.add_pad_token_id(0)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(3)
    writer.add_add_bos_token(kind == "llama")


def as_written(architecture: str, name: str, array: np.ndarray, config: Any) -> np.ndarray:
    """What llama.cpp's converter does to a parameter."""
    heads = {"q_proj": config.num_attention_heads, "k_proj": config.num_key_value_heads}
    for kind, count in heads.items():
        if architecture == "llama" and name.endswith(f"{kind}.weight"):
            rows = array.reshape(count, 2, array.shape[0] // count // 2, array.shape[1])
            return rows.swapaxes(1, 2).reshape(array.shape)
    if architecture == "gemma3" and name.endswith("norm.weight"):
        return array + np.float32(1)
    return array


def llama3_frequencies(config: Any) -> np.ndarray:
    """The factors by which llama.cpp divides the frequencies of a Llama 3."""
    rope = config.rope_parameters
    factors = []
    for index in range(0, config.head_dim, 2):
        length = 2 * np.pi * rope["rope_theta"] ** (index / config.head_dim)
        if length < rope["original_max_position_embeddings"] / rope["high_freq_factor"]:
            factors.append(1.0)
        elif length > rope["original_max_position_embeddings"] / rope["low_freq_factor"]:
            factors.append(rope["factor"])
        else:
            low, high = rope["low_freq_factor"], rope["high_freq_factor"]
            smooth = (rope["original_max_position_embeddings"] / length - low) / (high - low)
            factors.append(1 / ((1 - smooth) / rope["factor"] + smooth))
    return np.array(factors, dtype=np.float32)


def write_gguf(path: Path, network: Any, architecture: str, split: str = "qwen2") -> None:
    """A tiny model of the family that llama.cpp calls `architecture`."""
    config = network.config
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_name("tiny")
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    writer.add_key_length(head_dim)
    writer.add_value_length(head_dim)
    rope = config.rope_parameters
    if architecture == "gemma3":
        writer.add_rope_freq_base(rope["full_attention"]["rope_theta"])
        writer.add_sliding_window(config.sliding_window)
        writer.add_sliding_window_pattern([kind[0] == "s" for kind in config.layer_types])
    else:
        writer.add_rope_freq_base(rope["rope_theta"])
        writer.add_rope_dimension_count(head_dim)
        if rope["rope_type"] == "llama3":
            writer.add_tensor("rope_freqs.weight", llama3_frequencies(config))
    write_tokenizer(writer, "llama" if architecture == "gemma3" else "gpt2", split)
    names = gguf.get_tensor_name_map(
        next(key for key, name in gguf.MODEL_ARCH_NAMES.items() if name == architecture),
        config.num_hidden_layers,
    )
    for name, parameter in network.named_parameters():
        array = as_written(architecture, name, parameter.numpy(), config)
        writer.add_tensor(names.get_name(name, (".weight", ".bias")), np.ascontiguousarray(array))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
