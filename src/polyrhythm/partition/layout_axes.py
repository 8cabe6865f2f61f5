"""The axes of a layout: those that the mesh has to have."""

from __future__ import annotations

from collections.abc import Mapping

from polyrhythm.errors import CompositionError
from polyrhythm.partition.cut import Cut
from polyrhythm.partition.mesh import Mesh
from polyrhythm.partition.zero.zero import Zero


def refuse_axes(mesh: Mesh, cut: Cut, zero: Mapping[str, Zero]) -> None:
    """Raise CompositionError for axes of the cut, of its routes or of `zero` that are none of `mesh`, or of another kind."""
    for axis in zero:
        if axis not in mesh.names or axis in cut.axes:
            raise CompositionError(f"Replicas along {axis!r} should share their state, and {mesh!r} has none there: name a data axis.")
    for axis in () if cut.pipeline is None else cut.pipeline.joint[1:]:
        if axis not in mesh.names or axis in cut.axes or axis in zero:
            raise CompositionError(
                f"Routes go across replicas along {axis!r}, which {mesh!r} has not, or whose replicas divide a model: name a data "
                "axis without Zero, Pipelined(routes=..., across='dp')."
            )
    for axis in cut.axes:
        if axis not in mesh.names:
            raise CompositionError(f"The cut divides along {axis!r}, and {mesh!r} has no such axis: add it, or cut along another.")
    _refuse_late_shards(mesh, cut, zero)


def _refuse_late_shards(mesh: Mesh, cut: Cut, zero: Mapping[str, Zero]) -> None:
    """Copies of weights that a late pipeline keeps are of whole weights."""
    sizes, pipelined = dict(mesh.axes), cut.pipeline
    if pipelined is None or not (shared := [axis for axis in zero if sizes[axis] > 1]):
        return
    if pipelined.schedule.delay_of(0, sizes[pipelined.axis], pipelined.micro_batches):
        raise CompositionError(
            f"{pipelined.schedule!r} keeps copies of whole weights for batches under way, and {zero[shared[0]]!r} leaves "
            f"each replica along {shared[0]!r} a part: exchange gradients there, as allreduce does, or take a schedule without delay."
        )
