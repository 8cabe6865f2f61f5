"""Two-dimensional tensor parallelism: matrix products by SUMMA (van de Geijn & Watts, 1997; Xu et al., 2021, "An efficient 2D method").

Rank (i, j) has block (i, j) of the input, of the weights and of the output, and of nothing more than that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd import Function

from polyrhythm.partition.autocast import autocast_product
from polyrhythm.partition.axis import Axis, Sizes, starts
from polyrhythm.partition.moves import replicate
from polyrhythm.partition.place import Place
from polyrhythm.partition.tensor_parallel.grid import ActivationGrid, Features, RegionBatch, SpreadParameter, divided
from polyrhythm.partition.tensor_parallel.region import divide, refusal


@dataclass(frozen=True)
class Summa:
    """Divide a module, or all of a region, over two axes: samples over `row`, features over `column`, weights over both.

    The axes may have different sizes. `unit` features stay together, such as those of a head; `groups` has the number of equal stretches in
    the outputs of layers whose names match, such as ``{"*query_key_value": 3}``. Samples are divided over the axes `data` already.
    """

    row: str = "row"
    column: str = "column"
    unit: int = 1
    groups: Mapping[str, int] = field(default_factory=dict)
    data: tuple[str, ...] = ()

    @property
    def along(self) -> tuple[str, ...]:
        return (self.row, self.column)

    def refusal(self, module: nn.Module, place: Place) -> str:
        return refusal(module, self.groups, (self.row, self.column))

    def local(self, module: nn.Module, name: str, place: Place) -> nn.Module:
        return divide(module, name, place, self.layers(place))

    def layers(self, place: Place) -> SummaLayers:
        """How this rank's layers are made."""
        row = place.axis(self.row)
        data = tuple(place.axis(axis) for axis in self.data)
        grid = ActivationGrid((row,), place.axis(self.column), (row,), (), data, self.unit, RegionBatch())
        return SummaLayers(grid, self.groups)


@dataclass(frozen=True)
class SummaLayers:
    """The layers of a region on one grid, whose last axis of `rows` divides the inputs of weights."""

    grid: ActivationGrid
    groups: Mapping[str, int]

    def linear(self, module: nn.Linear, name: str, place: Place, outputs: Features) -> nn.Module:
        """The layer's part at this rank."""
        grid, row = self.grid, self.grid.rows[-1]
        names = (grid.column.name, row.name)
        piece = outputs.piece(module.weight.shape, 0, grid).part(1, grid.sizes(module.in_features, row), row.index)
        weight = place.parameter(module.weight, f"{name}.weight", piece, *names)
        bias, spread = None, SpreadParameter(piece.shape[0], 0, grid)
        if module.bias is not None:
            narrow = divided(outputs.piece(module.bias.shape, 0, grid), 0, grid.spread)
            bias = place.parameter(module.bias, f"{name}.bias", narrow, *names)
        return SummaLinear(weight, bias, spread, Features(module.in_features))

    def after_linear(self) -> SummaLayers:
        """The layers that follow one."""
        return self


class SummaLinear(nn.Module):
    """A linear layer of which each rank has a block: (own samples, …, own inputs) to (own samples, …, own outputs)."""

    def __init__(self, weight: nn.Parameter, bias: nn.Parameter | None, spread: SpreadParameter, inputs: Features) -> None:
        super().__init__()
        self.weight, self.bias = weight, bias
        self.in_features, self.out_features = weight.shape[1], weight.shape[0]
        grid = spread.grid
        self._spread, self._inputs = spread, inputs
        self._mesh = _Mesh(grid.rows[-1], grid.column)
        self._panels = panels(grid.sizes(inputs.width, grid.column), grid.sizes(inputs.width, grid.rows[-1]))

    def forward(self, value: Tensor) -> Tensor:
        grid = self._spread.grid
        self._inputs.check(value, grid)
        weight: Tensor = self.weight
        for axis in grid.copies:
            weight = replicate(weight, axis)
        value, weight = autocast_product(value, weight)
        flat = _Product.apply(value.flatten(0, -2), weight, self._mesh, self._panels)  # type: ignore[no-untyped-call]
        product: Tensor = flat.view(*value.shape[:-1], self.out_features)
        return product if self.bias is None else product + self._spread.whole(self.bias)


class _Mesh(NamedTuple):
    row: Axis
    column: Axis


class SummaPanel(NamedTuple):
    """A stretch of the dimension that a product sums over: the coordinate that has it, and where there, of inputs and of weights."""

    length: int
    column: int
    in_inputs: int
    row: int
    in_weights: int


def panels(inputs: Sizes, weights: Sizes) -> list[SummaPanel]:
    """The stretches that are with one rank in both divisions.

    Examples:
        >>> [tuple(panel) for panel in panels((2, 2), (3, 1))]
        [(2, 0, 0, 0, 0), (1, 1, 0, 0, 2), (1, 1, 1, 1, 0)]
    """
    ones, others = starts(inputs), starts(weights)
    found = []
    for j, (size, one) in enumerate(zip(inputs, ones, strict=True)):
        for i, (length, other) in enumerate(zip(weights, others, strict=True)):
            first, last = max(one, other), min(one + size, other + length)
            if first < last:
                found.append(SummaPanel(last - first, j, first - one, i, first - other))
    return found


def _inputs(value: Tensor, panel: SummaPanel, mesh: _Mesh) -> Tensor:
    """The panel of this row's inputs, from the rank that has it."""
    own = mesh.column.index == panel.column
    part = value.narrow(1, panel.in_inputs, panel.length) if own else value.new_empty(len(value), panel.length)
    return mesh.column.broadcast(part, panel.column)


def _weights(weight: Tensor, panel: SummaPanel, mesh: _Mesh) -> Tensor:
    """The panel of this column's weights, from the rank that has it."""
    own = mesh.row.index == panel.row
    part = weight.narrow(1, panel.in_weights, panel.length) if own else weight.new_empty(len(weight), panel.length)
    return mesh.row.broadcast(part, panel.row)


class _Product(Function):
    """value @ weight.T: what is broadcast is let go, and broadcast again for the gradients."""

    @staticmethod
    def forward(ctx: Any, value: Tensor, weight: Tensor, mesh: _Mesh, through: list[SummaPanel]) -> Tensor:
        ctx.save_for_backward(value, weight)
        ctx.mesh, ctx.through = mesh, through
        total = value.new_zeros(len(value), len(weight), dtype=torch.promote_types(value.dtype, torch.float32))
        for panel in through:
            total += _inputs(value, panel, mesh) @ _weights(weight, panel, mesh).t()
        return total.to(value.dtype)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        value, weight = ctx.saved_tensors
        of_value, of_weight = torch.zeros_like(value), torch.zeros_like(weight)
        for panel in ctx.through:
            if ctx.needs_input_grad[0]:
                part = ctx.mesh.column.reduce(gradient @ _weights(weight, panel, ctx.mesh), panel.column)
                if ctx.mesh.column.index == panel.column:
                    of_value.narrow(1, panel.in_inputs, panel.length).copy_(part)
            if ctx.needs_input_grad[1]:
                part = ctx.mesh.row.reduce(gradient.t() @ _inputs(value, panel, ctx.mesh), panel.row)
                if ctx.mesh.row.index == panel.row:
                    of_weight.narrow(1, panel.in_weights, panel.length).copy_(part)
        return of_value, of_weight, None, None
