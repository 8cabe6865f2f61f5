"""The place of a worker of a run: its axes over the run's messages, those of routes through replicas of stages, and who is left of them."""

from __future__ import annotations

from dataclasses import replace

from polyrhythm.core.kernel.group import Group
from polyrhythm.core.kernel.job import WorkerContext
from polyrhythm.core.kernel.mesh import WorkerMesh
from polyrhythm.partition.axis import Axis
from polyrhythm.partition.axis_collectives import ByMessages, Natively
from polyrhythm.partition.axis_of_one import AxisOfOne
from polyrhythm.partition.pipeline.pipelined import Pipelined
from polyrhythm.partition.pipeline.surviving import Survivors
from polyrhythm.partition.place import Place
from polyrhythm.partition.port_axis import PortAxis
from polyrhythm.process_group.messages.desk import Desk


def place_of(context: WorkerContext, mesh: WorkerMesh, desk: Desk, pipeline: Pipelined | None, native: bool = True) -> Place:
    """That of the worker of `context`. With `native`, workers on one host have collectives in shared memory."""
    name = context.port.name
    axes: dict[str, Axis] = {}
    for axis in mesh.names:
        line, group = mesh.line(name, axis), mesh.group(name, axis)
        collectives = Natively(line) if native and context.native(line) else ByMessages()
        axes[axis] = AxisOfOne(axis) if group.size == 1 else PortAxis(axis, group, desk, collectives)
    joints: dict[tuple[str, str], Axis] = {}
    if pipeline is not None and pipeline.joint:
        outer, inner = (each for each in mesh.names if each in pipeline.joint)
        joints[outer, inner] = PortAxis(f"{outer}+{inner}", mesh.group(name, outer, inner), desk)
    numbers = {axis: tuple(mesh.shares(each).rank for each in mesh.group(name, axis).members) for axis in mesh.data}
    replica = mesh.shares(name).rank
    return Place(axes, mesh.seed, device=context.device, replica=replica, joints=joints, numbers=numbers, now=context.time)


def everyone(context: WorkerContext, mesh: WorkerMesh, desk: Desk) -> Axis:
    """The axis of all workers of a run."""
    return PortAxis("everyone", mesh.world(context.port.name), desk)


def survivors_of(context: WorkerContext, mesh: WorkerMesh, desk: Desk, pipeline: Pipelined) -> Survivors:
    """The seats of a pipeline with routes, of which some are absent from the mesh."""
    name, (axis, across) = context.port.name, pipeline.joint
    lost = frozenset((mesh.coordinate(each, axis), mesh.coordinate(each, across)) for each in mesh.absent)
    replicas, everyone = mesh.here(mesh.group(name, across)), mesh.here(mesh.group(name, axis, across))
    seats = pipeline.seats(place_of(context, mesh, desk, pipeline, native=False))
    return Survivors(seats, lost, _among(replicas, "replicas", desk), _among(everyone, "everyone", desk))


def _among(group: Group, name: str, desk: Desk) -> Axis:
    if group.size == 1:
        return AxisOfOne(name)
    return PortAxis(name, replace(group, name=f"{name} of {group.name or 'all'}"), desk)
