"""Linear layers divided along one axis, by columns then rows (Shoeybi et al., 2019, "Megatron-LM", section 3).

The two make one all-reduce in the forward pass of a pair of layers, and one in the backward pass.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor, nn

from polyrhythm.partition.axis import Axis, near_equal
from polyrhythm.partition.moves import gather, replicate, shard, total
from polyrhythm.partition.piece import Piece
from polyrhythm.partition.place import Place


@dataclass(frozen=True, slots=True)
class Columns:
    """Divide the outputs of an `nn.Linear` over `axis`: every rank computes some of them, from all inputs.

    `groups` are stretches of outputs of which each is divided by itself: 3 for query, key and value in one. `unit` is the number of
    outputs that stay together, such as those of a head. With `gathered` all ranks get all outputs; otherwise a module that takes its own
    follows, such as one of `Rows`. `weights` are the ranks' shares, by default equal.
    """

    axis: str = "tp"
    groups: int = 1
    unit: int = 1
    gathered: bool = False
    weights: tuple[float, ...] | None = None

    @property
    def along(self) -> tuple[str, ...]:
        return (self.axis,)

    def refusal(self, module: nn.Module, place: Place) -> str:
        if not isinstance(module, nn.Linear):
            return f"Columns divides nn.Linear, and this is {type(module).__name__}: name linear layers."
        if module.out_features % (self.groups * self.unit):
            return (
                f"{module.out_features} outputs are not a multiple of groups={self.groups} times unit={self.unit}: give numbers that the "
                "outputs have."
            )
        return ""

    def sizes(self, module: nn.Linear, parts: int) -> tuple[int, ...]:
        """The outputs of each rank in one group."""
        return tuple(self.unit * n for n in near_equal(module.out_features // self.groups // self.unit, parts, self.weights))

    def local(self, module: nn.Module, name: str, place: Place) -> nn.Module:
        assert isinstance(module, nn.Linear)
        axis = place.axis(self.axis)
        sizes = self.sizes(module, axis.size)
        piece = Piece.all_of(module.weight.shape).part(0, sizes, axis.index, self.groups)
        weight = place.parameter(module.weight, f"{name}.weight", piece, self.axis)
        bias = None
        if module.bias is not None:
            narrow = Piece.all_of(module.bias.shape).part(0, sizes, axis.index, self.groups)
            bias = place.parameter(module.bias, f"{name}.bias", narrow, self.axis)
        return ColumnsLinear(weight, bias, axis, sizes if self.gathered else None, self.groups)


class ColumnsLinear(nn.Module):
    """Some outputs of a linear layer: (…, inputs), equal at all ranks, to (…, own outputs), or to all, of the sizes `gathered`."""

    def __init__(self, weight: nn.Parameter, bias: nn.Parameter | None, axis: Axis, gathered: tuple[int, ...] | None, groups: int) -> None:
        super().__init__()
        self.weight, self.bias = weight, bias
        self.in_features, self.out_features = weight.shape[1], weight.shape[0]
        self._axis, self._gathered, self._groups = axis, gathered, groups

    def forward(self, value: Tensor) -> Tensor:
        own = F.linear(replicate(value, self._axis), self.weight, self.bias)
        if self._gathered is None:
            return own
        if self._groups == 1:
            return gather(own, self._axis, -1, self._gathered)
        return gather(own.view(*own.shape[:-1], self._groups, -1), self._axis, -1, self._gathered).flatten(-2)


@dataclass(frozen=True, slots=True)
class Rows:
    """Divide the inputs of an `nn.Linear` over `axis`: every rank multiplies its own, and the products are added.

    With `whole_input` its input is equal at all ranks, which take their part of it; otherwise each has its part already, as after
    `Columns`. `unit` and `weights` are as there.
    """

    axis: str = "tp"
    unit: int = 1
    whole_input: bool = False
    weights: tuple[float, ...] | None = None

    @property
    def along(self) -> tuple[str, ...]:
        return (self.axis,)

    def refusal(self, module: nn.Module, place: Place) -> str:
        if not isinstance(module, nn.Linear):
            return f"Rows divides nn.Linear, and this is {type(module).__name__}: name linear layers."
        if module.in_features % self.unit:
            return f"{module.in_features} inputs are not a multiple of unit={self.unit}: give a number that divides them."
        return ""

    def local(self, module: nn.Module, name: str, place: Place) -> nn.Module:
        assert isinstance(module, nn.Linear)
        axis = place.axis(self.axis)
        sizes = tuple(self.unit * n for n in near_equal(module.in_features // self.unit, axis.size, self.weights))
        piece = Piece.all_of(module.weight.shape).part(1, sizes, axis.index)
        weight = place.parameter(module.weight, f"{name}.weight", piece, self.axis)
        bias = None if module.bias is None else place.parameter(module.bias, f"{name}.bias")
        return RowsLinear(weight, bias, axis, sizes if self.whole_input else None)


class RowsLinear(nn.Module):
    """The product with some inputs of a linear layer, added up: (…, own inputs), or all of the sizes `divided`, to (…, all outputs)."""

    def __init__(self, weight: nn.Parameter, bias: nn.Parameter | None, axis: Axis, divided: tuple[int, ...] | None) -> None:
        super().__init__()
        self.weight, self.bias = weight, bias
        self.in_features, self.out_features = weight.shape[1], weight.shape[0]
        self._axis, self._divided = axis, divided

    def forward(self, value: Tensor) -> Tensor:
        own = value if self._divided is None else shard(value, self._axis, -1, self._divided)
        product = total(F.linear(own, self.weight), self._axis)
        return product if self.bias is None else product + self.bias
