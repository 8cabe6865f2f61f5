"""Attention on tensors without memory as the CPU computes it: torch would make the whole matrix of scores there, and keep it."""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

from polyrhythm.core.torch_private.one_process import flash_attention_on_cpu

_PLACES = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")
_MATRICES = 4
"""Dimensions of what the CPU's kernel takes: samples, heads, tokens, features."""


class AttentionAsOnCpu(TorchFunctionMode):
    """A context in which `scaled_dot_product_attention` of tensors without memory is the fused operation, where the CPU would take it."""

    def __torch_function__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        given = kwargs or {}
        if func is F.scaled_dot_product_attention:
            said = dict(zip(_PLACES, args, strict=False)) | given
            if _fused(said):
                mask, causal = said.get("attn_mask"), bool(said.get("is_causal", False))
                return flash_attention_on_cpu(
                    said["query"], said["key"], said["value"], 0.0, causal, attn_mask=mask, scale=said.get("scale")
                )[0]
        return func(*args, **given)


def _fused(said: dict[str, Any]) -> bool:
    """Whether the CPU has one operation for it: equal heads and widths, floating-point masks without gradients, no dropout."""
    query, key, value, mask = said["query"], said["key"], said["value"], said.get("attn_mask")
    if not query.is_meta or query.dim() != _MATRICES or said.get("dropout_p", 0.0) or said.get("enable_gqa", False):
        return False
    alike = query.shape[1] == key.shape[1] == value.shape[1] and query.shape[-1] == key.shape[-1] == value.shape[-1]
    masked = not isinstance(mask, Tensor) or (mask.is_floating_point() and not mask.requires_grad)
    return alike and masked and query.is_floating_point()
