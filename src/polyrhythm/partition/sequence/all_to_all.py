"""Attention over a divided sequence with divided heads (Jacobs et al., 2023, "DeepSpeed Ulysses").

Before the attention each rank trades its tokens of all heads for all tokens of its heads, and afterwards back.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from polyrhythm.partition.axis import Axis, near_equal
from polyrhythm.partition.moves import transpose
from polyrhythm.partition.place import Place
from polyrhythm.partition.sequence.attention import DotProductAttention, refusal_of
from polyrhythm.partition.sequence.tokens import Tokens


@dataclass(frozen=True, slots=True)
class AllToAllAttention:
    """Divide the heads of a `DotProductAttention` whose inputs are divided along the sequence, by four all-to-alls.

    Heads of which one is more than another's are dealt out as they come: with fewer heads of keys than ranks, some ranks compute nothing.
    """

    tokens: Tokens

    @property
    def along(self) -> tuple[str, ...]:
        return (self.tokens.axis,)

    def refusal(self, module: nn.Module, place: Place) -> str:
        return refusal_of("AllToAllAttention", module, place, self.tokens)

    def local(self, module: nn.Module, name: str, place: Place) -> nn.Module:
        assert isinstance(module, DotProductAttention)
        return AllToAllAttentionModule(module, self.tokens, place.axis(self.tokens.axis))


class AllToAllAttentionModule(nn.Module):
    """Attention of this rank's heads over all tokens: (…, heads, own time, width) to the same."""

    def __init__(self, whole: DotProductAttention, tokens: Tokens, axis: Axis) -> None:
        super().__init__()
        self._whole, self._axis, self._sizes = (whole,), axis, tokens.sizes(axis.size)
        every = torch.cat([torch.arange(*span) for spans in tokens.spans(axis.size) for span in spans])
        self._order, self._back = every.argsort(), every

    def forward(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        (attention,) = self._whole
        groups = near_equal(key.shape[-3], self._axis.size)
        heads = tuple(n * (query.shape[-3] // key.shape[-3]) for n in groups)
        q, k, v = self._of_heads(query, heads), self._of_heads(key, groups), self._of_heads(value, groups)
        found = attention(q, k, v) if q.numel() else q.new_zeros(*q.shape[:-1], v.shape[-1]) + (q.sum() + k.sum() + v.sum())
        dim = found.dim() - 2
        back = found.index_select(dim, self._back.to(found.device))
        return transpose(back, self._axis, dim, self._sizes, dim - 1, heads)

    def _of_heads(self, value: Tensor, heads: tuple[int, ...]) -> Tensor:
        dim = value.dim() - 2
        joined = transpose(value, self._axis, dim - 1, heads, dim, self._sizes)
        return joined.index_select(dim, self._order.to(value.device))
