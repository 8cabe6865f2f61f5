"""A boundary within one process, to see what it does to training before there are two machines."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from torch import Tensor, nn
from torch.autograd import Function

from polyrhythm.partition.pipeline.boundary import Boundary, Crossing, Encoding
from polyrhythm.partition.pipeline.values import outline_of


class BoundaryInPlace(nn.Module):
    """Does to activations and gradients what the boundary of a pipeline does at `cut`: a module between two others.

    Every call in training is a micro-batch, of which `micro_batches` are a step. `ids` are the samples' of the next one.
    """

    def __init__(self, boundary: Boundary, cut: int = 0, seed: int = 0, micro_batches: int = 1) -> None:
        super().__init__()
        self.ids: tuple[Hashable, ...] | None = None
        self._ways = [(boundary.activations(cut, seed), boundary.activations(cut, seed))]
        self._ways += [(boundary.gradients(cut, seed), boundary.gradients(cut, seed))]
        self._calls, self._micro_batches = 0, micro_batches

    def forward(self, value: Tensor) -> Tensor:
        step, micro = divmod(self._calls, self._micro_batches)
        self._calls += self.training
        crossing = Crossing("step" if self.training else "evaluation", step, micro, self.ids)
        found: Tensor = _Cross.apply(value, *self._ways, crossing)  # type: ignore[no-untyped-call]
        return found


def _over(value: Tensor, way: tuple[Encoding, Encoding], crossing: Crossing) -> Tensor:
    sender, receiver = way
    outline = outline_of(value)
    receiver.wires(outline, crossing)
    return receiver.unpack(sender.pack((value,), crossing), outline, crossing)[0].clone()


class _Cross(Function):
    @staticmethod
    def forward(ctx: Any, value: Tensor, there: Any, back: Any, crossing: Crossing) -> Tensor:
        ctx.back, ctx.crossing = back, crossing
        return _over(value, there, crossing)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        return _over(gradient.contiguous(), ctx.back, ctx.crossing), None, None, None
