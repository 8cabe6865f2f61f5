"""Pipelines of unequal numbers of stages as replicas of each other: the axis of a mesh that they make, and what cannot be with them."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from polyrhythm.core.kernel.unequal_axis import UnequalAxis
from polyrhythm.errors import CompositionError
from polyrhythm.partition.cut import Cut
from polyrhythm.partition.mesh import Mesh
from polyrhythm.partition.pipeline.pipelined import Pipelined
from polyrhythm.partition.zero.zero import Zero


def unequal_axis(mesh: Mesh, cut: Cut, zero: Mapping[str, Zero]) -> UnequalAxis | None:
    """The axis of stages along which the replicas of `mesh` are divided unequally by `cut`; None where all are divided alike.

    Raises CompositionError for what is no pipeline's axis, and for stages that are not known beforehand.
    """
    if not mesh.unequal:
        return None
    [(axis, stages)] = mesh.unequal
    pipeline = cut.pipeline
    if pipeline is None or pipeline.axis != axis:
        raise CompositionError(
            f"{mesh!r} is unequal along {axis!r}, which has no stages of a pipeline: give pr.Cut(pipeline=Pipelined(axis={axis!r}, ...)), "
            "or one size for all replicas."
        )
    _refuse_axes(mesh, cut, axis)
    for name, each in zero.items():
        raise CompositionError(
            f"{mesh!r} has replicas along {name!r} that hold unequal parts, and by {each!r} they would share the state of the same one: "
            "use allreduce there, or one number of stages for all."
        )
    _refuse_pipeline(pipeline, max(stages), mesh)
    if (steps := pipeline.division.model_steps) is None:
        raise CompositionError(
            f"{pipeline.division!r} does not say how many steps the model has, and where replicas of {' and '.join(map(str, stages))} "
            "stages are cut decides what is exchanged: give BalancedStages(step_costs(model, inputs)), or StagesByReplica with the "
            "GivenStages of each."
        )
    holders = []
    for replica, count in enumerate(stages):
        sizes = pipeline.division.of_replica(replica).sizes(steps, count)
        holders.append(tuple(stage for stage, size in enumerate(sizes) for _ in range(size)))
    return UnequalAxis(axis, tuple(holders))


def _refuse_axes(mesh: Mesh, cut: Cut, axis: str) -> None:
    before = mesh.names[: mesh.names.index(axis)]
    data = [name for name in mesh.names if name not in cut.axes]
    if list(before) != data:
        raise CompositionError(
            f"{mesh!r} has unequal sizes for the coordinates of {', '.join(before) or 'no axis'}, and the replicas are along "
            f"{', '.join(data) or 'none'}: put the axes of replicas before {axis!r}, and all others after it."
        )
    assert len(dict(mesh.unequal)[axis]) == prod(dict(mesh.axes)[name] for name in data), "the mesh has one size for each"


def _refuse_pipeline(pipeline: Pipelined, most: int, mesh: Mesh) -> None:
    schedule, given = pipeline.schedule, f"{mesh!r} has pipelines of unequal length, and "
    if pipeline.routes is not None:
        raise CompositionError(
            f"{given}{pipeline.routes!r} goes through equal stages of all replicas: leave the routes out, or give all as many stages."
        )
    if schedule.chunks > 1 or schedule.delay_of(0, most, pipeline.micro_batches):
        raise CompositionError(
            f"{given}by {schedule!r} ranks have several stages, or gradients of older weights, whose age depends on the length: use "
            "OneForwardOneBackward(), GPipe() or ZeroBubble()."
        )
