"""Clips merged gradients of a model in parts by the norm of the whole model's, where they are there before the optimizer's step."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from polyrhythm.core.strategy.clipped_together import ClippedTogether
from polyrhythm.core.strategy.part import Part
from polyrhythm.core.strategy.replica import Replica
from polyrhythm.errors import CompositionError
from polyrhythm.partition.axis import Axis
from polyrhythm.partition.norm import clip_gradients
from polyrhythm.partition.pipeline.pipelined import Pipelined

_INSTEAD = "leave it out, and call worker.clip_gradients between backward() and step(), which clips the gradients of a replica."


def clip_together(replica: Replica, axes: Mapping[str, Axis], loses: bool, pipeline: Pipelined | None) -> None:
    """Have `attach(clip_norm=)` of `replica` mean the norm of the whole model's merged gradient, which is summed along `axes`.

    Raises CompositionError for a norm where it cannot, as where the crew `loses` workers.
    """
    if all(axis.size == 1 for axis in axes.values()):
        return
    if refused := _refusal(replica, axes, loses, pipeline):
        if replica.clip_norm is not None:
            raise CompositionError(refused)
        return
    trained: list[Tensor] = [each for local in replica.locals for each in local.parameters.parameters]
    together = ClippedTogether(lambda norm: clip_gradients(trained, norm, axes), replica.context)
    replica.made.concluded = together.take
    for local in replica.locals:
        local.optimizer.together = together


def _refusal(replica: Replica, axes: Mapping[str, Axis], loses: bool, pipeline: Pipelined | None) -> str:
    """Why the merged gradient of a model in parts cannot be clipped, with a remedy; "" if it can."""
    name = replica.plan.strategy.name
    if loses:
        return (
            "clip_norm of a model in parts would wait for workers that may be lost meanwhile: leave it out, or give one number of workers."
        )
    if pipeline is not None and pipeline.schedule.delay_of(0, axes[pipeline.axis].size, pipeline.micro_batches):
        return f"clip_norm is for gradients of one batch, and with {pipeline.schedule!r} each stage has those of another: leave it out."
    if any(not _merged_in_step(part) for part in replica.parts):
        return (
            f"clip_norm of a model in parts clips the merged gradient that all workers step on, and under {name} it is not there in each "
            f"step, or others step on it: {_INSTEAD}"
        )
    if len({(id(part.planned.exchange), part.local.parameters.flat.dtype) for part in replica.parts}) > 1:
        return f"clip_norm clips each exchange, and each type of weights, by a norm of its own, and {name} has several: {_INSTEAD}"
    return ""


def _merged_in_step(part: Part) -> bool:
    """True if the worker's optimizer takes each step on a merged gradient, which all workers have then."""
    local, traits = part.local, part.planned.exchange.topology.traits
    late = traits.late > 0 or part.deferral is not None or part.channel.offers.late is not None
    merges = local.agreement.payload.is_gradient and part.payload.steps_here and local.optimizer.clips_merged
    return merges and local.acts_alike and not late
