"""What workers with the parts of one replica take from the first of them, to begin with, and after a step.

They are in step with each other, but each has neighbours of its own, messages of which come at other moments, and measures its own speed.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from polyrhythm.core.kernel.view import ViewChanged
from polyrhythm.core.strategy.replica import Replica
from polyrhythm.errors import StateLostError
from polyrhythm.partition.axis import Axis
from polyrhythm.partition.placement import placement_of


def begin_alike(model: nn.Module, axes: Sequence[Axis]) -> None:
    """Give whole weights and buffers the values at the first rank of each axis, before they are divided.

    Raises StateLostError if a worker is lost meanwhile: some have the first one's weights then, and others have not.
    """
    try:
        with torch.no_grad():
            for tensor in (*model.parameters(), *model.buffers()):
                for axis in axes:
                    if tensor.numel() and not tensor.is_meta:
                        tensor.copy_(axis.broadcast(tensor, 0))
    except ViewChanged as interruption:
        lost = " and ".join(sorted(interruption.change.lost))
        raise StateLostError(
            f"{lost} was lost before all workers had the weights that training begins with: start the run again."
        ) from None


def follow_weights(replica: Replica, axes: Sequence[Axis]) -> None:
    """Give trained weights that are not divided along an axis the values at its first rank."""
    exchanged = [part.local for part in replica.parts]
    every = [each for local in exchanged for each in local.parameters.parameters]
    for axis in axes:
        followed = [each for each in every if axis.name not in placement_of(each).axes and each.numel()]
        with torch.no_grad():
            for kind in dict.fromkeys(each.dtype for each in followed):
                alike = [each for each in followed if each.dtype == kind]
                first = axis.broadcast(torch.cat([each.reshape(-1) for each in alike]), 0)
                for each, value in zip(alike, torch.split(first, [each.numel() for each in alike]), strict=True):
                    each.copy_(value.view(each.shape))
    for local in exchanged:
        local.writes.note()


def follow_decisions(replica: Replica, axes: Sequence[Axis]) -> None:
    """Have the controllers' decisions about the whole replica be those of the first rank along these axes."""
    for control in (local.control for local in replica.locals):
        if control.decides_for_replica:
            chosen = torch.tensor(control.of_replica, dtype=torch.float64)
            for axis in axes:
                chosen = axis.broadcast(chosen, 0)
            control.follow(replica.clock, chosen.tolist())
