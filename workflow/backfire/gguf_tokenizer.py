"""The tokenizer of a GGUF file, by transformers' reading of it, for the kinds that are exact."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, pre_tokenizers, processors

from backfire.errors import UserError

Value = Callable[..., Any]

_WHOLE_WORDS = ("llama-bpe", "llama3", "llama-v3")
"""Pre-tokenizers of Llama 3: a word that is a token is never put together from smaller ones."""

PRE_TOKENIZERS = ("smollm", "qwen2", "dbrx", *_WHOLE_WORDS)
"""How the file says that text is split before the merges of a byte-level vocabulary."""


def build_tokenizer(source: Path, value: Value) -> Tokenizer:
    """The tokenizer of a GGUF file whose metadata `value` gives by key.

    Raises:
        UserError: a tokenizer that is not known here.
    """
    from transformers.integrations.gguf.gguf_tokenizer_mapping import (
        convert_gguf_tokenizer,
        get_gguf_tokenizer,
    )

    kind, split = value("tokenizer.ggml.model"), value("tokenizer.ggml.pre", None)
    gemma = value("general.architecture") == "gemma3"
    if kind != ("llama" if gemma else "gpt2"):
        raise UserError(f"{source}: GGUF tokenizer is {kind!r}: not known for this architecture")
    if not gemma and split not in PRE_TOKENIZERS:
        known = ", ".join(PRE_TOKENIZERS)
        raise UserError(f"{source}: GGUF pre-tokenizer is {split!r}; known are {known}")
    architecture, parts, _ = get_gguf_tokenizer(str(source))
    tokenizer, _ = convert_gguf_tokenizer(architecture, parts)
    if split == "smollm":
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [
                pre_tokenizers.Digits(individual_digits=True),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
            ]
        )
    if split in _WHOLE_WORDS:
        tokenizer.model.ignore_merges = True
    # transformers passes over `add_bos_token` in a config file and believes this.
    tokenizer.post_processor = None
    if _begins_with_bos(value):
        number = value("tokenizer.ggml.bos_token_id")
        bos = value("tokenizer.ggml.tokens")[number]
        tokenizer.post_processor = processors.TemplateProcessing(
            single=f"{bos} $A", pair=f"{bos} $A {bos} $B", special_tokens=[(bos, number)]
        )
    return tokenizer


def _begins_with_bos(value: Value) -> bool:
    """Whether the model wants a BOS in front; what llama.cpp does with a file that does not say."""
    unsaid = value("tokenizer.ggml.model") == "llama" or (
        value("tokenizer.ggml.pre", None) in _WHOLE_WORDS
    )
    return bool(value("tokenizer.ggml.add_bos_token", unsaid))


def tokenizer_config(value: Value) -> dict[str, Any]:
    """The `tokenizer_config.json` that belongs to the tokenizer."""
    tokens = value("tokenizer.ggml.tokens")
    kinds = {"bos": "bos", "eos": "eos", "unknown": "unk", "padding": "pad"}
    ids = {ours: value(f"tokenizer.ggml.{kind}_token_id", None) for kind, ours in kinds.items()}
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        **{f"{kind}_token": tokens[number] for kind, number in ids.items() if number is not None},
        "add_bos_token": _begins_with_bos(value),
        "model_max_length": value(f"{value('general.architecture')}.context_length"),
        "clean_up_tokenization_spaces": False,
        "chat_template": value("tokenizer.chat_template", None),
    }
    return {key: entry for key, entry in config.items() if entry is not None}
