"""The beginning of the exchanges of a replica: in a run, and in each view of a crew that changes."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from torch import Tensor, nn

from polyrhythm.core.collectives.broadcast import broadcast, flat_broadcast
from polyrhythm.core.protocols.partition import follows_owner, takes_batches_in_parts
from polyrhythm.core.strategy.gradients import copy_bytes, paste_bytes
from polyrhythm.core.strategy.part import Part
from polyrhythm.core.strategy.watching.alike import Attached, begin_alike


def others_of(model: nn.Module, trained: Collection[int]) -> list[Tensor]:
    """The frozen parameters and buffers of `model`, of which `trained` are the ids of parameters that are exchanged."""
    every = (each for each in (*model.parameters(), *model.buffers()) if id(each) not in trained and each.numel())
    return [each.detach() for each in every if not follows_owner(each)]


def connect(parts: Sequence[Part], attached: Attached, others: Sequence[Tensor], tolerates_loss: bool) -> None:
    """Connect the parts of what a worker has `attached`, with the weights of the first; `others` are its frozen parameters and buffers.

    If the run `tolerates_loss`, nobody sends on what it has got. Where a worker holds several parts, others were equal before it was cut.
    """
    first = parts[0]
    begin_alike(first.context, attached)
    for part in parts:
        part.establish()
    if others and first.workers.size > 1 and first.planned.part is None:
        send = flat_broadcast if tolerates_loss else broadcast
        paste_bytes(first.context.perform(send(first.port, first.workers, copy_bytes(others), "others")), others)
    if not takes_batches_in_parts(attached.model):
        for part in parts:
            part.begin_overlap(attached.model)
