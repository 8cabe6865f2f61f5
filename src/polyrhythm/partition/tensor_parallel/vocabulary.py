"""Embeddings and the loss over a vocabulary that is divided among ranks (Shoeybi et al., 2019, section 3).

A vocabulary need not be a multiple of the ranks, and no rank has the scores of all symbols.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd import Function

from polyrhythm.partition.axis import Axis, near_equal, starts
from polyrhythm.partition.moves import total
from polyrhythm.partition.piece import Piece
from polyrhythm.partition.place import Place


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Divide the rows of an `nn.Embedding` over `axis`: each symbol is looked up by the rank that has it, and the results are added."""

    axis: str = "tp"
    weights: tuple[float, ...] | None = None

    @property
    def along(self) -> tuple[str, ...]:
        return (self.axis,)

    def refusal(self, module: nn.Module, place: Place) -> str:
        if not isinstance(module, nn.Embedding):
            return f"Vocabulary divides nn.Embedding, and this is {type(module).__name__}: name embeddings, and use Columns for scores."
        if module.max_norm is not None or module.scale_grad_by_freq or module.sparse:
            return "An embedding with max_norm, scale_grad_by_freq or sparse gradients cannot be divided: leave these options out."
        return ""

    def local(self, module: nn.Module, name: str, place: Place) -> nn.Module:
        assert isinstance(module, nn.Embedding)
        axis = place.axis(self.axis)
        sizes = near_equal(module.num_embeddings, axis.size, self.weights)
        piece = Piece.all_of(module.weight.shape).part(0, sizes, axis.index)
        weight = place.parameter(module.weight, f"{name}.weight", piece, self.axis)
        return VocabularyEmbedding(weight, axis, sizes, module.padding_idx)


class VocabularyEmbedding(nn.Module):
    """Vectors of symbols (…) of which this rank has those of `sizes[index]` rows: to (…, width), equal at all ranks."""

    def __init__(self, weight: nn.Parameter, axis: Axis, sizes: tuple[int, ...], padding: int | None) -> None:
        super().__init__()
        self.weight = weight
        self.num_embeddings, self.embedding_dim, self.padding_idx = sum(sizes), weight.shape[1], padding
        self._axis, self._first = axis, starts(sizes)[axis.index]

    def forward(self, symbols: Tensor) -> Tensor:
        if not symbols.is_meta and ((symbols < 0) | (symbols >= self.num_embeddings)).any():
            raise IndexError(f"A symbol is outside of the {self.num_embeddings} that the embedding has.")
        rows = len(self.weight)
        own = symbols - self._first
        elsewhere = (own < 0) | (own >= rows)
        if rows:
            padding = None if self.padding_idx is None or not 0 <= self.padding_idx - self._first < rows else self.padding_idx - self._first
            found = F.embedding(own.masked_fill(elsewhere, 0), self.weight, padding).masked_fill(elsewhere.unsqueeze(-1), 0.0)
        else:
            found = self.weight.sum() + self.weight.new_zeros(*symbols.shape, self.embedding_dim)
        return total(found, self._axis)


def vocabulary_cross_entropy(
    scores: Tensor,
    targets: Tensor,
    axis: Axis,
    sizes: tuple[int, ...],
    *,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    reduction: str = "mean",
) -> Tensor:
    """`torch.nn.functional.cross_entropy` of scores (…, own symbols) that are divided over `axis` by `sizes`, for targets (…).

    All ranks get the same loss. With `reduction` "mean" it is over the targets that are not ignored, which are the same at all ranks; the
    other reductions are "sum" and "none", which gives (…). Raises ValueError for another.
    """
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"reduction={reduction!r} is none of mean, sum and none.")
    each: Tensor = _CrossEntropy.apply(scores, targets, axis, sizes, ignore_index, label_smoothing)  # type: ignore[no-untyped-call]
    if reduction == "none":
        return each
    return each.sum() if reduction == "sum" else each.sum() / (targets != ignore_index).sum()


class _CrossEntropy(Function):
    @staticmethod
    def forward(ctx: Any, scores: Tensor, targets: Tensor, axis: Axis, sizes: tuple[int, ...], ignored: int, smoothing: float) -> Tensor:
        symbols, first, own = sum(sizes), starts(sizes)[axis.index], sizes[axis.index]
        wide = scores.float() if scores.dtype in (torch.bfloat16, torch.float16) else scores
        lowest = torch.finfo(wide.dtype).min
        highest = wide.amax(-1) if own else wide.new_full(wide.shape[:-1], lowest)
        shifted = wide - axis.maximum(highest).unsqueeze(-1)
        kept = targets != ignored
        place = torch.where(kept, targets - first, -1)
        here = (place >= 0) & (place < own)
        at = place.clamp(0, max(own - 1, 0)).unsqueeze(-1)
        of_target = shifted.gather(-1, at).squeeze(-1) * here if own else shifted.sum(-1)
        # one sum for the three: exponentials, the target's score, and all scores, which smoothing needs
        sums = axis.all_reduce(
            torch.stack([shifted.exp().sum(-1), of_target, shifted.sum(-1) if smoothing else torch.zeros_like(of_target)])
        )
        logarithm = sums[0].log()
        loss = logarithm - (1 - smoothing) * sums[1] - smoothing * sums[2] / symbols
        ctx.save_for_backward(shifted, logarithm, at, here, kept)
        ctx.smoothing, ctx.symbols, ctx.dtype = smoothing, symbols, scores.dtype
        return torch.where(kept, loss, torch.zeros_like(loss))

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        shifted, logarithm, at, here, kept = ctx.saved_tensors
        slope = (shifted - logarithm.unsqueeze(-1)).exp() - ctx.smoothing / ctx.symbols
        if slope.shape[-1]:
            slope.scatter_add_(-1, at, -(1 - ctx.smoothing) * here.unsqueeze(-1).to(slope.dtype))
        return ((gradient * kept).unsqueeze(-1) * slope).to(ctx.dtype), None, None, None, None, None
