"""The layout of a run: its mesh, which of its axes hold replicas, and the cut along the others. `pr.run` makes it of `mesh=` and `cut=`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from polyrhythm.core.kernel.group import Group
from polyrhythm.core.kernel.job import WorkerContext
from polyrhythm.core.kernel.mesh import MeshShape, WorkerMesh
from polyrhythm.errors import CompositionError
from polyrhythm.partition.axis import Axis
from polyrhythm.partition.axis_of_one import AxisOfOne
from polyrhythm.partition.cut import Cut
from polyrhythm.partition.mesh import Mesh
from polyrhythm.partition.place import Place
from polyrhythm.partition.port_axis import NoLedger, PortAxis
from polyrhythm.partition.whole_state import gathered
from polyrhythm.process_group.messages.desk import Desk


@dataclass(frozen=True)
class Layout:
    """A `core.protocols.Partition`: models are cut by `cut` over those axes of `mesh` that it names; along the others are replicas.

    Raises CompositionError for a cut along an axis that the mesh has not.
    """

    mesh: Mesh
    cut: Cut

    def __post_init__(self) -> None:
        for axis in self.cut.axes:
            if axis not in self.mesh.names:
                raise CompositionError(f"The cut divides along {axis!r}, and {self.mesh!r} has no such axis: add it, or cut along another.")

    @property
    def shape(self) -> MeshShape:
        """The axes of the mesh; those that are not cut have replicas."""
        return MeshShape(self.mesh.axes, tuple(name for name in self.mesh.names if name not in self.cut.axes))

    def at(self, context: WorkerContext, mesh: WorkerMesh) -> PartsOfWorker:
        """The side of the worker of `context`."""
        name, desk = context.port.name, Desk(context, NoLedger())
        axes: dict[str, Axis] = {}
        for axis, size in self.mesh.axes:
            axes[axis] = AxisOfOne(axis) if size == 1 else PortAxis(axis, mesh.group(name, axis), desk)
        return PartsOfWorker(self.cut, Place(axes, mesh.seed), mesh.replica(name), desk)


class PartsOfWorker:
    """The parts that one worker holds, at `place`; `replica` are the workers with the parts of one model, who talk through `desk`."""

    def __init__(self, cut: Cut, place: Place, replica: Group, desk: Desk) -> None:
        self._cut, self._place, self._replica, self._desk = cut, place, replica, desk

    def localize(self, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        """Replace the modules of `model` that are divided, and the parameters of `optimizer`, by this worker's."""
        self._cut.apply(model, self._place)
        for group in optimizer.param_groups:
            group["params"] = [own for each in group["params"] if (own := self._place.made(each)) is not None]

    def whole(self, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Copies on the CPU of the whole model's parameters and buffers, at the first worker of its replica; none at the others."""
        return gathered(state, self._replica, self._desk)
