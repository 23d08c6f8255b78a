"""Tiny random models, one of each kind of architecture on the ladder."""

from __future__ import annotations

from functools import cache

import torch
from transformers import (
    Gemma2Config,
    Gemma2ForCausalLM,
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    LlamaConfig,
    LlamaForCausalLM,
    Olmo2Config,
    Olmo2ForCausalLM,
    PreTrainedModel,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
    SmolLM3Config,
    SmolLM3ForCausalLM,
)

VOCABULARY = 61
WINDOW = 256
SIZES = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": WINDOW,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
SLIDING = ["sliding_attention", "full_attention", "sliding_attention"]

ARCHITECTURES = {
    "llama": (LlamaForCausalLM, LlamaConfig, {"tie_word_embeddings": True}),
    "llama3": (
        LlamaForCausalLM,
        LlamaConfig,
        {
            "num_key_value_heads": 1,
            "rope_parameters": {
                "rope_type": "llama3",
                "rope_theta": 500_000.0,
                "factor": 32.0,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                "original_max_position_embeddings": 8192,
            },
        },
    ),
    "qwen2": (Qwen2ForCausalLM, Qwen2Config, {"tie_word_embeddings": False}),
    "qwen3": (Qwen3ForCausalLM, Qwen3Config, {"head_dim": 16, "num_key_value_heads": 1}),
    "olmo2": (Olmo2ForCausalLM, Olmo2Config, {"num_key_value_heads": 4}),
    "smollm3": (
        SmolLM3ForCausalLM,
        SmolLM3Config,
        {"no_rope_layers": [1, 0, 1], "pad_token_id": 0},
    ),
    "gemma2": (
        Gemma2ForCausalLM,
        Gemma2Config,
        {
            "head_dim": 8,
            "layer_types": SLIDING,
            "sliding_window": 7,
            "attn_logit_softcapping": 2.0,
            "final_logit_softcapping": 3.0,
        },
    ),
    "gemma3": (
        Gemma3ForCausalLM,
        Gemma3TextConfig,
        {
            "head_dim": 8,
            "query_pre_attn_scalar": 8,
            "layer_types": SLIDING,
            "sliding_window": 5,
            "num_key_value_heads": 1,
        },
    ),
}

# For single tests: not on the ladder.
SPECIAL = {
    "sliding_only": (
        Gemma3ForCausalLM,
        Gemma3TextConfig,
        {"head_dim": 8, "layer_types": ["sliding_attention"] * 3, "sliding_window": 5},
    ),
    "uniform": (LlamaForCausalLM, LlamaConfig, {}),
    "broken": (LlamaForCausalLM, LlamaConfig, {}),
    "dynamic_rope": (
        LlamaForCausalLM,
        LlamaConfig,
        {"rope_parameters": {"rope_type": "dynamic", "rope_theta": 1e4, "factor": 2.0}},
    ),
}


@cache
def tiny_model(architecture: str, device: str = "cpu") -> PreTrainedModel:
    """A random float32 model in eval mode, the same every time; not to be changed by a test."""
    network_class, config_class, options = {**ARCHITECTURES, **SPECIAL}[architecture]
    config = config_class(**{**SIZES, **options})
    with torch.random.fork_rng():
        torch.manual_seed(7)
        network = network_class(config)
        for parameter in network.parameters():
            # Larger than at initialisation, so that attention and logits are far from uniform.
            torch.nn.init.normal_(parameter, std=0.3)
    if architecture in ("uniform", "broken"):
        value = 0.0 if architecture == "uniform" else float("nan")
        torch.nn.init.constant_(network.lm_head.weight, value)
    return network.eval().to(device)
