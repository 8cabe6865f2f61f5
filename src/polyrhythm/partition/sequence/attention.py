"""Attention without weights of its own, as a module that a cut can name.

A model that calls `scaled_dot_product_attention` through it can have its sequence divided, by any of the styles of this package.
"""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from polyrhythm.partition.place import Place
from polyrhythm.partition.sequence.tokens import Tokens


class DotProductAttention(nn.Module):
    """Queries (…, heads, time, width), keys and values of as many heads, or of some that divide them, to (…, heads, time, width).

    With `causal` a token sees those before it and itself. `scale` multiplies the scores, by default 1/sqrt(width).
    """

    def __init__(self, causal: bool = False, dropout: float = 0.0, scale: float | None = None) -> None:
        super().__init__()
        self.causal, self.dropout, self.scale = causal, dropout, scale

    def forward(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        chance = self.dropout if self.training else 0.0
        grouped = query.shape[-3] != key.shape[-3]
        return F.scaled_dot_product_attention(
            query, key, value, dropout_p=chance, is_causal=self.causal, scale=self.scale, enable_gqa=grouped
        )


def refusal_of(style: str, module: nn.Module, place: Place, tokens: Tokens) -> str:
    """Why that style cannot divide the module's sequence."""
    if not isinstance(module, DotProductAttention):
        return (
            f"{style} divides DotProductAttention, and this is {type(module).__name__}: call attention through such a module, and name it."
        )
    if module.dropout:
        return f"Attention with dropout={module.dropout} would drop other scores than one device does: set dropout=0."
    place.axis(tokens.axis)
    return ""


def grouped(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The same with one more dimension, where several heads of queries share one of keys: (…, groups, heads or 1, time, width)."""
    heads, groups = query.shape[-3], key.shape[-3]
    if heads == groups:
        return query, key, value
    several = query.reshape(*query.shape[:-3], groups, heads // groups, *query.shape[-2:])
    return several, key.unsqueeze(-3), value.unsqueeze(-3)
