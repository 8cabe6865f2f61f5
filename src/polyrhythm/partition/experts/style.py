"""Experts that are divided among ranks, each with its own tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor, nn

from polyrhythm.partition.axis import Axis, near_equal
from polyrhythm.partition.experts.mixture import MixtureOfExperts, answers
from polyrhythm.partition.piece import Piece
from polyrhythm.partition.place import Place


@dataclass(frozen=True, slots=True)
class Experts:
    """Divide the experts of a `MixtureOfExperts` over `axis`, whose ranks have different tokens; the gate is the same at all of them.

    `over` are the other axes along which tokens are different, from outer to inner, whose ranks have the same experts and take the mean of
    their gradients: room and shares are those of all tokens. `weights` are the ranks' shares of the experts.
    """

    axis: str = "ep"
    over: tuple[str, ...] = ()
    weights: tuple[float, ...] | None = None

    @property
    def along(self) -> tuple[str, ...]:
        return (self.axis,)

    def refusal(self, module: nn.Module, place: Place) -> str:
        if not isinstance(module, MixtureOfExperts):
            return f"Experts divides MixtureOfExperts, and this is {type(module).__name__}: name such a layer."
        if self.axis in self.over:
            return f"The axis {self.axis!r} divides the experts, so its ranks do not have the same ones: leave it out of over={self.over}."
        return ""

    def local(self, module: nn.Module, name: str, place: Place) -> nn.Module:
        assert isinstance(module, MixtureOfExperts)
        axis = place.axis(self.axis)
        sizes = near_equal(len(module.gate), axis.size, self.weights)
        for own in ("up", "up_bias", "down", "down_bias"):
            whole = getattr(module, own)
            setattr(module, own, place.parameter(whole, f"{name}.{own}", Piece.all_of(whole.shape).part(0, sizes, axis.index), self.axis))
        module.gate = place.parameter(module.gate, f"{name}.gate")
        return DividedExperts(module, axis, [place.axis(each) for each in self.over], sizes)


class DividedExperts(nn.Module):
    """Tokens of this rank (…, width) to the same, answered by the experts of all ranks, and the auxiliary loss, equal at all ranks."""

    def __init__(self, layer: MixtureOfExperts, axis: Axis, over: Sequence[Axis], sizes: tuple[int, ...]) -> None:
        super().__init__()
        self.gate, self.up, self.up_bias, self.down, self.down_bias = layer.gate, layer.up, layer.up_bias, layer.down, layer.down_bias
        self.choices, self.capacity_factor, self.balance, self.z = layer.choices, layer.capacity_factor, layer.balance, layer.z
        self._axis, self._over, self._sizes = axis, tuple(over), sizes

    def forward(self, value: Tensor) -> tuple[Tensor, Tensor]:
        return answers(self, value, self._axis, self._over, self._sizes)
