"""The whole state of a model from the pieces that the workers of a replica hold."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import torch
from torch import Tensor

from polyrhythm.core.kernel.group import Group
from polyrhythm.core.kernel.message import Message
from polyrhythm.partition.piece import Piece
from polyrhythm.partition.placement import placement_of
from polyrhythm.process_group.messages.calls import IssuedCall
from polyrhythm.process_group.messages.desk import Desk

_TOPIC, _DONE = "whole", "whole/done"


def gathered(state: Mapping[str, Tensor], replica: Group, desk: Desk) -> dict[str, Tensor]:
    """Copies on the CPU of the whole tensors, at the first of `replica`, of which `state` are this worker's pieces; none at the others.

    Names are in the order in which the workers have them.
    """
    pieces = {name: placement_of(tensor).piece for name, tensor in state.items()}
    own = {name: tensor.detach().cpu().clone().contiguous() for name, tensor in state.items()}
    call = IssuedCall("gather", "the whole model", replica.name, replica.members, 0, "the end")
    if not replica.is_first:
        desk.perform(_send(pieces, own, replica, desk), call)
        return {}
    found: dict[str, Tensor] = {}
    _put(found, pieces, own)
    for member in replica.members[1:]:
        _put(found, *desk.perform(_receive(member, desk), call))
    return found


async def _send(pieces: Mapping[str, Piece], own: Mapping[str, Tensor], replica: Group, desk: Desk) -> None:
    text = msgspec.json.encode({name: (piece.whole, piece.spans) for name, piece in pieces.items()}).decode()
    await desk.port.send(replica.first, Message(_TOPIC, text=text, tensors=tuple(own.values())))
    await desk.port.receive(_DONE, replica.first)  # a worker that has ended would be waited for in vain


async def _receive(member: str, desk: Desk) -> tuple[dict[str, Piece], dict[str, Tensor]]:
    delivery = await desk.port.receive(_TOPIC, member)
    assert delivery is not None, "it is waited for without a limit"
    message = delivery.message
    await desk.port.send(member, Message(_DONE))
    described = msgspec.json.decode(message.text, type=dict[str, tuple[tuple[int, ...], tuple[tuple[tuple[int, int], ...], ...]]])
    pieces = {name: Piece(*each) for name, each in described.items()}
    return pieces, dict(zip(pieces, message.tensors, strict=True))


def _put(found: dict[str, Tensor], pieces: Mapping[str, Piece], own: Mapping[str, Tensor]) -> None:
    for name, piece in pieces.items():
        if name not in found:
            found[name] = torch.empty(piece.whole, dtype=own[name].dtype)
        piece.put(own[name].view(piece.shape), found[name])
