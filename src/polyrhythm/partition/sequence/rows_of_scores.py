"""Attention over a divided sequence with whole rows of scores (Li et al., 2021, "Sequence parallelism", section 3.2).

The keys pass around a ring, and each rank gets the scores of its queries with all of them; after an ordinary softmax the values
pass around. A rank keeps own x whole scores, where `RingAttention` keeps none.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from polyrhythm.partition.axis import Axis, starts
from polyrhythm.partition.place import Place
from polyrhythm.partition.sequence.attention import DotProductAttention, grouped, refusal_of
from polyrhythm.partition.sequence.tokens import Tokens


@dataclass(frozen=True, slots=True)
class RingSelfAttention:
    """Divide the sequence of a `DotProductAttention`: keys, then values pass around a ring, and a rank has whole rows of scores.

    Where the paper adds up the gradients of all keys and values at all ranks, each rank gets the sum of its own only.
    """

    tokens: Tokens

    @property
    def along(self) -> tuple[str, ...]:
        return (self.tokens.axis,)

    def refusal(self, module: nn.Module, place: Place) -> str:
        return refusal_of("RingSelfAttention", module, place, self.tokens)

    def local(self, module: nn.Module, name: str, place: Place) -> nn.Module:
        assert isinstance(module, DotProductAttention)
        return RingSelfAttentionModule(self.tokens, place.axis(self.tokens.axis), module.causal, module.scale)


class RingSelfAttentionModule(nn.Module):
    """Attention between this rank's queries and all ranks' keys and values."""

    def __init__(self, tokens: Tokens, axis: Axis, causal: bool, scale: float | None) -> None:
        super().__init__()
        self._tokens, self._axis, self.causal, self.scale = tokens, axis, causal, scale

    def forward(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        factor = 1 / math.sqrt(query.shape[-1]) if self.scale is None else self.scale
        sizes = self._tokens.sizes(self._axis.size)
        q, k, v = grouped(query, key, value)
        scores = _Scores.apply(q * factor, k, self._axis, sizes)  # type: ignore[no-untyped-call]
        weights = self._masked(scores).softmax(-1)
        found: Tensor = _Mixed.apply(weights, v, self._axis, sizes)  # type: ignore[no-untyped-call]
        return found.flatten(-4, -3) if found.dim() > query.dim() else found

    def _masked(self, scores: Tensor) -> Tensor:
        if not self.causal:
            return scores
        places = torch.tensor([k for spans in self._tokens.spans(self._axis.size) for span in spans for k in range(*span)])
        own = self._tokens.positions(self._axis)
        return scores.masked_fill((own.unsqueeze(1) < places).to(scores.device), -torch.inf)


def _passing(value: Tensor, axis: Axis, sizes: tuple[int, ...]) -> Iterator[tuple[int, Tensor]]:
    """What each rank has, with its coordinate, as it passes around the ring."""
    yield axis.index, value
    for hop in range(1, axis.size):
        source = (axis.index - hop) % axis.size
        value = axis.shift(value, 1, (*value.shape[:-2], sizes[source], value.shape[-1]))
        yield source, value


def _products(rows: Tensor, value: Tensor, axis: Axis, sizes: tuple[int, ...]) -> Tensor:
    """Rows (…, own, width) times the transposes of all ranks' values (…, own, width): (…, own, whole)."""
    found = {source: rows @ part.mT for source, part in _passing(value, axis, sizes)}
    return torch.cat([found[source] for source in range(axis.size)], -1)


def _mixed(weights: Tensor, value: Tensor, axis: Axis, sizes: tuple[int, ...]) -> Tensor:
    """Weights (…, own, whole) times all ranks' values (…, own, width): (…, own, width)."""
    found = [weights.narrow(-1, starts(sizes)[source], sizes[source]) @ part for source, part in _passing(value, axis, sizes)]
    return torch.stack(found).sum(0)


class _Scores(Function):
    """Queries (…, own, width) and keys (…, own, width) to (…, own, whole), in the order of ranks."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, axis: Axis, sizes: tuple[int, ...]) -> Tensor:
        ctx.save_for_backward(query, key)
        ctx.axis, ctx.sizes = axis, sizes
        return _products(query, key, axis, sizes)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Any:
        query, key = ctx.saved_tensors
        every = (gradient.mT @ query).sum_to_size(*key.shape[:-2], gradient.shape[-1], key.shape[-1])
        return _mixed(gradient, key, ctx.axis, ctx.sizes), ctx.axis.reduce_scatter(every, every.dim() - 2, ctx.sizes), None, None


class _Mixed(Function):
    """Weights (…, own, whole) and values (…, own, width) to (…, own, width)."""

    @staticmethod
    def forward(ctx: Any, weights: Tensor, value: Tensor, axis: Axis, sizes: tuple[int, ...]) -> Tensor:
        ctx.save_for_backward(weights, value)
        ctx.axis, ctx.sizes = axis, sizes
        return _mixed(weights, value, axis, sizes)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Any:
        weights, value = ctx.saved_tensors
        every = (weights.mT @ gradient).sum_to_size(*value.shape[:-2], weights.shape[-1], value.shape[-1])
        return _products(gradient, value, ctx.axis, ctx.sizes), ctx.axis.reduce_scatter(every, every.dim() - 2, ctx.sizes), None, None
