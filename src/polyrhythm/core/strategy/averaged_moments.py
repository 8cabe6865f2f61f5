"""The state of the optimizers of several workers, averaged over them: momentum, second moments and others."""

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
    """A tensor that an optimizer keeps for a parameter: its shape, None for the parameter's own, and the name of its type."""

    shape: tuple[int, ...] | None
    dtype: str


Slots = dict[str, KeptTensor]
"""Kept tensors by name, in the order in which the optimizer made them."""


def average_moments(optimizer: LocalOptimizer, collective: CollectiveOperations, context: WorkerContext) -> None:
    """Replace each floating-point tensor of the state of `optimizer` by its mean over the workers.

    Where a parameter had no gradient at some workers, these count as zeros, and get the mean too; one that had none at any worker stays
    without a state. Workers first sum one number per parameter to see which these are, because a worker cannot know whether the others have
    a state. Only where some lack one do all send a description of theirs.
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
