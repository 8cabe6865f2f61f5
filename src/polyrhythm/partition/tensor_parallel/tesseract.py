"""2.5-dimensional tensor parallelism: grids of SUMMA for parts of the batch (Wang et al., 2021, "Tesseract").

Solomonik & Demmel's (2011) idea: copies of the weights, which cost memory, save communication.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from torch import nn

from polyrhythm.partition.place import Place
from polyrhythm.partition.tensor_parallel.grid import ActivationGrid, RegionBatch
from polyrhythm.partition.tensor_parallel.region import divide, refusal
from polyrhythm.partition.tensor_parallel.summa import SummaLayers


@dataclass(frozen=True)
class Tesseract:
    """Divide a module, or all of a region, over three axes: samples over `depth` and `row`, features over `column`.

    Weights are divided over `row` and `column` and equal along `depth`, where their gradients are added. `unit`, `groups` and `data` are as
    in `Summa`.
    """

    depth: str = "depth"
    row: str = "row"
    column: str = "column"
    unit: int = 1
    groups: Mapping[str, int] = field(default_factory=dict)
    data: tuple[str, ...] = ()

    @property
    def along(self) -> tuple[str, ...]:
        return (self.depth, self.row, self.column)

    def refusal(self, module: nn.Module, place: Place) -> str:
        return refusal(module, self.groups, (self.depth, self.row, self.column))

    def local(self, module: nn.Module, name: str, place: Place) -> nn.Module:
        return divide(module, name, place, self.layers(place))

    def layers(self, place: Place) -> SummaLayers:
        """How this rank's layers are made."""
        depth, row = place.axis(self.depth), place.axis(self.row)
        data = tuple(place.axis(axis) for axis in self.data)
        grid = ActivationGrid((depth, row), place.axis(self.column), (row,), (depth,), data, self.unit, RegionBatch())
        return SummaLayers(grid, self.groups)
