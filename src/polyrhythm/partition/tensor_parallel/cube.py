"""Three-dimensional tensor parallelism (Agarwal et al., 1995; Bian et al., 2021, "Maximizing parallelism in distributed training").

Each rank multiplies one block of the cube of samples, inputs and outputs, of which it has a part of each face.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from torch import Tensor, nn
from torch.autograd import Function

from polyrhythm.partition.autocast import autocast_product
from polyrhythm.partition.axis import Axis, near_equal
from polyrhythm.partition.place import Place
from polyrhythm.partition.tensor_parallel.grid import ActivationGrid, Features, RegionBatch, SpreadParameter, divided
from polyrhythm.partition.tensor_parallel.marks import marked
from polyrhythm.partition.tensor_parallel.region import divide, refusal


@dataclass(frozen=True)
class Cube:
    """Divide a module, or all of a region, over three axes: samples over `x` and `y`, features over `z`, weights over all.

    After each linear layer `y` and `z` have changed places, so that two of them in turn give activations like those that they are given:
    a residual is added after an even number of layers. `unit`, `groups` and `data` are as in `Summa`.
    """

    x: str = "x"
    y: str = "y"
    z: str = "z"
    unit: int = 1
    groups: Mapping[str, int] = field(default_factory=dict)
    data: tuple[str, ...] = ()

    @property
    def along(self) -> tuple[str, ...]:
        return (self.x, self.y, self.z)

    def refusal(self, module: nn.Module, place: Place) -> str:
        return refusal(module, self.groups, (self.x, self.y, self.z))

    def local(self, module: nn.Module, name: str, place: Place) -> nn.Module:
        return divide(module, name, place, self.layers(place))

    def layers(self, place: Place) -> CubeLayers:
        """How this rank's layers are made."""
        x, y = place.axis(self.x), place.axis(self.y)
        data = tuple(place.axis(axis) for axis in self.data)
        grid = ActivationGrid((x, y), place.axis(self.z), (x, y), (), data, self.unit, RegionBatch())
        return CubeLayers(grid, self.groups)


@dataclass(frozen=True)
class CubeLayers:
    """The layers of a region whose next inputs are on `grid`."""

    grid: ActivationGrid
    groups: Mapping[str, int]

    def linear(self, module: nn.Linear, name: str, place: Place, outputs: Features) -> nn.Module:
        """The layer's part at this rank."""
        (x, _), z, after = self.grid.rows, self.grid.column, self.after_linear().grid
        piece = outputs.piece(module.weight.shape, 0, after).part(1, self.grid.sizes(module.in_features, z), z.index)
        names = tuple(axis.name for axis in (after.column, z, x))
        weight = place.parameter(module.weight, f"{name}.weight", divided(piece, 1, (x,)), *names)
        bias = None
        if module.bias is not None:
            narrow = divided(outputs.piece(module.bias.shape, 0, after), 0, after.spread)
            bias = place.parameter(module.bias, f"{name}.bias", narrow, *names)
        return CubeLinear(weight, bias, self.grid, SpreadParameter(piece.shape[0], 0, after), Features(module.in_features))

    def after_linear(self) -> CubeLayers:
        """The layers that follow one."""
        grid = self.grid
        rows = (grid.rows[0], grid.column)
        return CubeLayers(ActivationGrid(rows, grid.rows[1], rows, (), grid.data, grid.unit, grid.batch), self.groups)


class CubeLinear(nn.Module):
    """A linear layer from activations on `grid` to those on the spread's, where two axes have changed places."""

    def __init__(
        self, weight: nn.Parameter, bias: nn.Parameter | None, grid: ActivationGrid, spread: SpreadParameter, inputs: Features
    ) -> None:
        super().__init__()
        self.weight, self.bias = weight, bias
        self.in_features, self.out_features = weight.shape[1], weight.shape[0]
        self._grid, self._spread, self._inputs = grid, spread, inputs

    def forward(self, value: Tensor) -> Tensor:
        grid = self._grid
        self._inputs.check(value, grid)
        (x, y), z = grid.rows, grid.column
        samples = near_equal(grid.batch.samples, x.size)[x.index]
        inputs = near_equal(grid.sizes(self._inputs.width, z)[z.index], x.size)
        faces = _Faces(_Face(y, 0, near_equal(samples, y.size)), _Face(x, 1, inputs), _Face(z, 0, near_equal(samples, z.size)))
        product: Tensor = _Product.apply(*autocast_product(value, self.weight), faces)  # type: ignore[no-untyped-call]
        return marked(product if self.bias is None else product + self._spread.whole(self.bias), self._spread.grid)


class _Face(NamedTuple):
    """A side of the block that a rank multiplies, which is divided by `sizes` along `dim`."""

    axis: Axis
    dim: int
    sizes: tuple[int, ...]

    def gathered(self, part: Tensor) -> Tensor:
        return self.axis.all_gather(part, self.dim, self.sizes)

    def scattered(self, whole: Tensor) -> Tensor:
        return self.axis.reduce_scatter(whole, self.dim, self.sizes)


class _Faces(NamedTuple):
    inputs: _Face
    weights: _Face
    outputs: _Face


class _Product(Function):
    """value @ weight.T: what is gathered is let go, and gathered again for the gradients."""

    @staticmethod
    def forward(ctx: Any, value: Tensor, weight: Tensor, faces: _Faces) -> Tensor:
        ctx.save_for_backward(value, weight)
        ctx.faces = faces
        return faces.outputs.scattered(faces.inputs.gathered(value) @ faces.weights.gathered(weight).t())

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        value, weight = ctx.saved_tensors
        faces, of_value, of_weight = ctx.faces, None, None
        whole = faces.outputs.gathered(gradient)
        if ctx.needs_input_grad[0]:
            of_value = faces.inputs.scattered(whole @ faces.weights.gathered(weight))
        if ctx.needs_input_grad[1]:
            of_weight = faces.weights.scattered(whole.flatten(0, -2).t() @ faces.inputs.gathered(value).flatten(0, -2))
        return of_value, of_weight, None
