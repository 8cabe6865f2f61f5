"""Attention over a divided sequence with keys and values that pass around a ring (Liu et al., 2023, "Ring attention").

A rank has the scores of its own queries with one other rank's keys at a time, and adds them up by a softmax that is computed in one pass
(Milakov and Gimelshein, 2018). In the backward pass the gradients of keys and values travel with them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from polyrhythm.partition.axis import NARROW, Axis
from polyrhythm.partition.place import Place
from polyrhythm.partition.sequence.attention import DotProductAttention, grouped, refusal_of
from polyrhythm.partition.sequence.blocks import ScoreBlock, visible
from polyrhythm.partition.sequence.tokens import Spans, Tokens


@dataclass(frozen=True, slots=True)
class RingAttention:
    """Divide the sequence of a `DotProductAttention`: each rank has its own queries, and all keys and values pass by.

    Each rank sends P-1 times its share of the keys and values in the forward pass, and twice as much in the backward pass.
    """

    tokens: Tokens

    @property
    def along(self) -> tuple[str, ...]:
        return (self.tokens.axis,)

    def refusal(self, module: nn.Module, place: Place) -> str:
        return refusal_of("RingAttention", module, place, self.tokens)

    def local(self, module: nn.Module, name: str, place: Place) -> nn.Module:
        assert isinstance(module, DotProductAttention)
        axis = place.axis(self.tokens.axis)
        return RingAttentionModule(axis, self.tokens.spans(axis.size), module.causal, module.scale)


class RingAttentionModule(nn.Module):
    """Attention between this rank's queries and all ranks' keys and values, of which it has those of `spans[index]`."""

    def __init__(self, axis: Axis, spans: Spans, causal: bool, scale: float | None) -> None:
        super().__init__()
        self._axis, self._spans, self.causal, self.scale = axis, spans, causal, scale

    def forward(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return ring_attention(query, key, value, self._axis, self._spans, causal=self.causal, scale=self.scale)


def ring_attention(
    query: Tensor, key: Tensor, value: Tensor, axis: Axis, spans: Spans, *, causal: bool = False, scale: float | None = None
) -> Tensor:
    """Attention of (…, heads, own time, width), with any `spans` that the ranks agree on.

    Raises ValueError for another number of tokens than this rank's spans have.
    """
    own = sum(end - start for start, end in spans[axis.index])
    if query.shape[-2] != own or key.shape[-2] != own or value.shape[-2] != own:
        raise ValueError(f"This rank has {own} tokens of the sequence, and was given {query.shape[-2]} queries and {key.shape[-2]} keys.")
    factor = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    ring = _Ring(axis, spans, causal, factor)
    found: Tensor = _RingAttention.apply(*grouped(query, key, value), ring)  # type: ignore[no-untyped-call]
    return found.flatten(-4, -3) if found.dim() > query.dim() else found


@dataclass(frozen=True, slots=True)
class _Ring:
    """What the two passes have in common."""

    axis: Axis
    spans: Spans
    causal: bool
    scale: float

    def source(self, hop: int) -> int:
        """Whose keys are here after that many hops."""
        return (self.axis.index - hop) % self.axis.size

    def shifted(self, value: Tensor, source: int) -> Tensor:
        """What comes from the rank before this one: something with the tokens of `source`."""
        shape = list(value.shape)
        shape[-2] = sum(end - start for start, end in self.spans[source])
        return self.axis.shift(value, 1, shape)

    def blocks(self, hop: int) -> list[ScoreBlock]:
        """What this rank's queries see of the keys that are here."""
        return list(visible(self.spans[self.axis.index], self.spans[self.source(hop)], self.causal))


class _Running:
    """A softmax of rows of scores that come block by block, times values. m, l and o are the maximum, the denominator and the numerator."""

    def __init__(self, rows: tuple[int, ...], width: int, like: Tensor) -> None:
        self.m = like.new_full(rows, -torch.inf)
        self.l = like.new_zeros(rows)
        self.o = like.new_zeros(*rows, width)

    def add(self, rows: slice, scores: Tensor, value: Tensor) -> None:
        """The scores of these rows with some keys, whose values are given."""
        m = torch.maximum(self.m[..., rows], scores.amax(-1))
        kept = (self.m[..., rows] - m).exp()
        weights = (scores - m.unsqueeze(-1)).exp()
        self.m[..., rows] = m
        self.l[..., rows] = self.l[..., rows] * kept + weights.sum(-1)
        self.o[..., rows, :] = self.o[..., rows, :] * kept.unsqueeze(-1) + weights @ value


def _wide(*values: Tensor) -> list[Tensor]:
    return [value.float() if value.dtype in NARROW else value for value in values]


class _RingAttention(Function):
    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor, ring: _Ring) -> Tensor:
        (q,) = _wide(query)
        held, widths = torch.cat((key, value), -1), [key.shape[-1], value.shape[-1]]
        running = _Running(tuple(query.shape[:-1]), value.shape[-1], q)
        for hop in range(ring.axis.size):
            held = ring.shifted(held, ring.source(hop)) if hop else held
            k, v = _wide(*torch.split(held, widths, -1))
            for block in ring.blocks(hop):
                scores = q[..., block.queries, :] @ k[..., block.keys, :].mT * ring.scale
                running.add(block.queries, block.masked(scores), v[..., block.keys, :])
        output = (running.o / running.l.unsqueeze(-1)).to(query.dtype)
        ctx.save_for_backward(query, key, value, output, running.m + running.l.log())
        ctx.ring = ring
        return output

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Any:
        query, key, value, output, logarithm = ctx.saved_tensors
        ring: _Ring = ctx.ring
        slopes = _slopes(ring, query, output, logarithm, gradient)
        held, widths = torch.cat((key, value), -1), [key.shape[-1], value.shape[-1]]
        of_query, own = slopes(held, widths, 0)
        carried = torch.zeros_like(own)
        for hop in range(1, ring.axis.size):
            held = ring.shifted(held, ring.source(hop))
            more, here = slopes(held, widths, hop)
            of_query += more
            carried = ring.shifted(here if hop == 1 else carried + here, ring.source(hop + 1))
        of_key, of_value = torch.split(own + carried, widths, -1)
        return of_query.to(query.dtype), of_key.to(key.dtype), of_value.to(value.dtype), None


def _slopes(
    ring: _Ring, query: Tensor, output: Tensor, logarithm: Tensor, gradient: Tensor
) -> Callable[[Tensor, list[int], int], tuple[Tensor, Tensor]]:
    """The gradients of the own queries, and of the keys and values that are here, from the scores between them."""
    q, o, slope = _wide(query, output, gradient)
    delta = (slope * o).sum(-1, keepdim=True)

    def of(held: Tensor, widths: list[int], hop: int) -> tuple[Tensor, Tensor]:
        k, v = _wide(*torch.split(held, widths, -1))
        of_query, of_key, of_value = torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v)
        for block in ring.blocks(hop):
            rows, keys = (..., block.queries, slice(None)), (..., block.keys, slice(None))
            p = (block.masked(q[rows] @ k[keys].mT * ring.scale) - logarithm[..., block.queries].unsqueeze(-1)).exp()
            ds = p * (slope[rows] @ v[keys].mT - delta[rows]) * ring.scale
            of_value[keys] += (p.mT @ slope[rows]).sum_to_size(v[keys].shape)
            of_key[keys] += (ds.mT @ q[rows]).sum_to_size(k[keys].shape)
            of_query[rows] += ds @ k[keys]
        return of_query, torch.cat((of_key, of_value), -1)

    return of
