"""The state of the optimizers of several workers, averaged over them: momentum, second moments and others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import msgspec
import torch
from torch import Tensor

from polyrhythm.core.kernel.job import WorkerContext
from polyrhythm.core.kernel.together import Start
from polyrhythm.core.protocols.requests import CollectiveOperations
from polyrhythm.core.protocols.responses import Response
from polyrhythm.core.protocols.topology import Channel
from polyrhythm.core.strategy.local_optimizer import LocalOptimizer
from polyrhythm.core.trees import StateTree


class KeptTensor(NamedTuple):
    """A tensor that an optimizer keeps for a parameter: its shape, None for the parameter's own, and the name of its type."""

    shape: tuple[int, ...] | None
    dtype: str


Slots = dict[str, KeptTensor]
"""Kept tensors by name, in the order in which the optimizer made them."""


class MomentsExchange:
    """The averages of the state of `optimizer`, which follow the exchange of `channel` as a part of it where its response is not late.

    What both bring is applied at once. `before` is the state of the channel before an exchange while its averages are under way: where the
    crew changes meanwhile, and nobody has both, all make both again.
    """

    def __init__(self, channel: Channel, optimizer: LocalOptimizer, context: WorkerContext) -> None:
        self.channel = channel
        self.optimizer = optimizer
        self.context = context
        self.before: StateTree = None
        self._put: Callable[[], None] | None = None

    def following(self, start: Start[Response]) -> Start[Response]:
        """`start`, and the averages after it; it alone where there are none, or where they wait for a response that comes late."""
        offers = self.channel.offers
        return start if offers.collective is None or offers.late is not None else partial(self._both, start, offers.collective)

    async def _both(self, start: Start[Response], collective: CollectiveOperations) -> Response:
        before = self.channel.export()
        response = await start()
        self.before = before
        self._put = await averaged(self.optimizer, collective)
        self.before = None
        return response

    def conclude(self) -> None:
        """Put the averages in the place of what they are of; first make those that have waited for a late response."""
        collective, put, self._put = self.channel.offers.collective, self._put, None
        if put is None and collective is not None:
            put = self.context.perform(averaged(self.optimizer, collective))
        if put is not None:
            put()

    def export(self) -> StateTree:
        """The state of the channel from which its next exchange continues, or the one that was interrupted."""
        return self.channel.export() if self.before is None else self.before


async def averaged(optimizer: LocalOptimizer, collective: CollectiveOperations) -> Callable[[], None]:
    """Average each floating-point tensor of the state of `optimizer` over the workers. What is returned puts the means in their places.

    Where a parameter had no gradient at some workers, these count as zeros, and get the mean too; one that had none at any worker stays
    without a state. Workers first sum one number per parameter to see which these are, because a worker cannot know whether the others have
    a state. Only where some lack one do all send a description of theirs.
    """
    parameters = optimizer.parameters.parameters
    states = [{key: value for key, value in state.items() if _averaged(value)} for state in optimizer.states()]
    having = await collective.all_reduce(torch.tensor([float(bool(state)) for state in states]))
    if not having.any():
        return lambda: None
    kept = [_slots(state, parameter) for state, parameter in zip(states, parameters, strict=True)]
    if (having % collective.group.size).any():
        kept = _united([_read(*packet) for packet in await collective.all_gather((_written(kept),))])
    values = [
        [state[key] if key in state else _zeros(slot, parameter) for key, slot in slots.items()]
        for state, slots, parameter in zip(states, kept, parameters, strict=True)
    ]
    flat = torch.cat([value.reshape(-1).cpu() for found in values for value in found])
    means = await collective.all_reduce(flat) / collective.group.size

    def put() -> None:
        at = 0
        for parameter, slots, found in zip(parameters, kept, values, strict=True):
            for key, value in zip(slots, found, strict=True):
                value.copy_(means[at : at + value.numel()].view(value.shape))
                optimizer.optimizer.state[parameter][key] = value
                at += value.numel()

    return put


def _averaged(value: object) -> bool:
    return isinstance(value, Tensor) and value.is_floating_point()


def _slots(state: Mapping[str, Tensor], parameter: Tensor) -> Slots:
    return {
        key: KeptTensor(None if value.shape == parameter.shape else tuple(value.shape), str(value.dtype).removeprefix("torch."))
        for key, value in state.items()
    }


def _written(kept: Sequence[Slots]) -> Tensor:
    """`kept` as bytes that can be sent."""
    return torch.frombuffer(bytearray(msgspec.json.encode(kept)), dtype=torch.uint8)


def _read(written: Tensor) -> list[Slots]:
    return msgspec.json.decode(bytes(written.tolist()), type=list[Slots])


def _united(kept: Sequence[Sequence[Slots]]) -> list[Slots]:
    """The tensors that any worker keeps, parameter by parameter; `kept` is by rank, so that all get the same order."""
    return [{key: slot for slots in column for key, slot in slots.items()} for column in zip(*kept, strict=True)]


def _zeros(slot: KeptTensor, parameter: Tensor) -> Tensor:
    """The value that counts for a worker without this tensor."""
    dtype = getattr(torch, slot.dtype)
    return torch.zeros_like(parameter, dtype=dtype) if slot.shape is None else torch.zeros(slot.shape, dtype=dtype)
