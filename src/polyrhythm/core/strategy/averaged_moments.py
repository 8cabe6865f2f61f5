"""What the optimizers of several workers remember, averaged over them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec
import torch
from torch import Tensor

from polyrhythm.core.kernel.job import WorkerContext
from polyrhythm.core.protocols.requests import CollectiveOperations
from polyrhythm.core.strategy.local_optimizer import LocalOptimizer


class KeptTensor(NamedTuple):
    """A tensor that an optimizer keeps for a parameter: its shape, None for the parameter's own, and what its type is called."""

    shape: tuple[int, ...] | None
    dtype: str


Slots = dict[str, KeptTensor]
"""By name, in the order in which the optimizer made them."""


def average_moments(optimizer: LocalOptimizer, collective: CollectiveOperations, context: WorkerContext) -> None:
    """Put the mean over workers in the place of each floating-point tensor of the state of `optimizer`.

    Of a parameter that had no gradient at some workers these count as zeros, and get the mean too; one that had none at any
    worker stays without a state. A number a parameter, summed first, tells which these are: whoever has a state cannot know whether the
    others have. Only where some lack one do all tell what they keep.
    """
    parameters = optimizer.parameters.parameters
    states = [{key: value for key, value in state.items() if _averaged(value)} for state in optimizer.states()]
    having = context.perform(collective.all_reduce(torch.tensor([float(bool(state)) for state in states])))
    if not having.any():
        return
    kept = [_slots(state, parameter) for state, parameter in zip(states, parameters, strict=True)]
    if (having % collective.group.size).any():
        kept = _united([_read(*packet) for packet in context.perform(collective.all_gather((_written(kept),)))])
    values = [
        [state[key] if key in state else _zeros(slot, parameter) for key, slot in slots.items()]
        for state, slots, parameter in zip(states, kept, parameters, strict=True)
    ]
    flat = torch.cat([value.reshape(-1).cpu() for found in values for value in found])
    means, at = context.perform(collective.all_reduce(flat)) / collective.group.size, 0
    for parameter, slots, found in zip(parameters, kept, values, strict=True):
        for key, value in zip(slots, found, strict=True):
            value.copy_(means[at : at + value.numel()].view(value.shape))
            optimizer.optimizer.state[parameter][key] = value
            at += value.numel()


def _averaged(value: object) -> bool:
    return isinstance(value, Tensor) and value.is_floating_point()


def _slots(state: Mapping[str, Tensor], parameter: Tensor) -> Slots:
    return {
        key: KeptTensor(None if value.shape == parameter.shape else tuple(value.shape), str(value.dtype).removeprefix("torch."))
        for key, value in state.items()
    }


def _written(kept: Sequence[Slots]) -> Tensor:
    """As bytes."""
    return torch.frombuffer(bytearray(msgspec.json.encode(kept)), dtype=torch.uint8)


def _read(written: Tensor) -> list[Slots]:
    return msgspec.json.decode(bytes(written.tolist()), type=list[Slots])


def _united(kept: Sequence[Sequence[Slots]]) -> list[Slots]:
    """What any worker keeps, parameter by parameter: `kept` by rank, so that all come to the same order."""
    return [{key: slot for slots in column for key, slot in slots.items()} for column in zip(*kept, strict=True)]


def _zeros(slot: KeptTensor, parameter: Tensor) -> Tensor:
    """What counts where there is nothing yet."""
    dtype = getattr(torch, slot.dtype)
    return torch.zeros_like(parameter, dtype=dtype) if slot.shape is None else torch.zeros(slot.shape, dtype=dtype)
