"""What the optimizers of several workers remember, averaged over them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from polyrhythm.kernel.job import WorkerContext
from polyrhythm.pieces.requests import CollectiveOperations
from polyrhythm.strategy.local_optimizer import LocalOptimizer

Slots = Mapping[str, torch.Size | None]
"""The tensors that an optimizer keeps for a parameter: their shapes by name, None for the parameter's own."""


def average_moments(optimizer: LocalOptimizer, collective: CollectiveOperations, context: WorkerContext) -> None:
    """Put the mean over workers in the place of each floating-point tensor of the state of `optimizer`.

    Of a parameter that had no gradient at some workers these count as zeros, and get the mean too; one that had none at any
    worker stays without a state. A number a parameter, sent with the tensors, tells which these are.
    """
    states = [{key: value for key, value in state.items() if _averaged(value)} for state in optimizer.states()]
    parameters = optimizer.parameters.parameters
    if not any(states):
        return
    slots = next(
        {key: None if value.shape == parameter.shape else value.shape for key, value in state.items()}
        for state, parameter in zip(states, parameters, strict=True)
        if state
    )
    values = [_filled(state, slots, parameter) for state, parameter in zip(states, parameters, strict=True)]
    present = torch.tensor([float(bool(state)) for state in states])
    flat = torch.cat([present, *(value.reshape(-1).cpu() for found in values for value in found)])
    means = context.perform(collective.all_reduce(flat)) / collective.group.size
    at = len(states)
    for parameter, found, somewhere in zip(parameters, values, means[:at].tolist(), strict=True):
        for key, value in zip(slots, found, strict=True):
            if somewhere:
                value.copy_(means[at : at + value.numel()].view(value.shape))
                optimizer.optimizer.state[parameter][key] = value
            at += value.numel()


def _averaged(value: object) -> bool:
    return isinstance(value, Tensor) and value.is_floating_point()


def _filled(state: Mapping[str, Tensor], slots: Slots, parameter: Tensor) -> Sequence[Tensor]:
    """The tensors of one parameter, in the order of `slots`; zeros where it has none yet."""
    if state:
        return [state[key] for key in slots]
    return [torch.zeros_like(parameter) if shape is None else torch.zeros(shape) for shape in slots.values()]
