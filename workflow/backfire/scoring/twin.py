"""A twin of a network that shares its weights and can be rebuilt without touching it."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.modeling_outputs import BaseModelOutputWithPast

from backfire.errors import UserError
from backfire.scoring import attention


class PackedLinear(nn.Module):
    """A float32 linear layer whose weight oneDNN has laid out for its kernels.

    On two cores of AMD Zen 3 its products reach 125 to 145 GFLOP/s at the shapes of a small
    model, where the default, MKL, gives 95 to 125, and 40 for the language-model head.
    """

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.weight = torch.ops.mkldnn._reorder_linear_weight(linear.weight.detach(), None)
        self.bias = linear.bias

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = torch.ops.mkldnn._linear_pointwise(x, self.weight, self.bias, "none", [], "")
        return out


class _Given(nn.Module):
    """Stands where the layers were, for a head that is given hidden states."""

    def forward(self, inputs_embeds: Tensor, **_: Any) -> BaseModelOutputWithPast:
        return BaseModelOutputWithPast(last_hidden_state=inputs_embeds)


def split(network: PreTrainedModel) -> tuple[nn.Module, nn.Module]:
    """The layers and the head of a network, as modules of their own that share its weights.

    The layers take `input_ids`, `position_ids` and `pack_state`, and give `last_hidden_state`.
    The head takes hidden states as `inputs_embeds` and gives `logits`, with whatever the family
    does to them (soft-capping, scaling).

    Raises:
        UserError: the architecture cannot be given another attention function.
    """
    name = type(network).__name__
    if not network._supports_attention_backend:
        raise UserError(f"{name} does not support attention backends: no packed scoring for it")
    rope = getattr(network.config.get_text_config(), "rope_parameters", None) or {}
    kinds = {
        rope.get("rope_type"),
        *(v.get("rope_type") for v in rope.values() if hasattr(v, "get")),
    }
    if kinds & {"dynamic", "longrope"}:
        raise UserError(f"{name} scales its positions by the length of the input: not supported")
    shared = [*network.parameters(), *network.buffers()]
    twin = copy.deepcopy(network, memo={id(tensor): tensor for tensor in shared})
    twin.set_attn_implementation(attention.NAME)
    if twin.device.type == "cpu" and torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        _pack_linears(twin)
    body = twin.base_model
    setattr(twin, twin.base_model_prefix, _Given())
    return body, twin


def _pack_linears(module: nn.Module) -> None:
    for name, child in module.named_children():
        if type(child) is nn.Linear and child.weight.dtype == torch.float32:
            setattr(module, name, PackedLinear(child))
        else:
            _pack_linears(child)
