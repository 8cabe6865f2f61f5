"""A run that continues a checkpoint of another strategy: the weights and the optimizer go on, and the exchange begins anew.

What a strategy keeps (residuals, clocks, copies of others, what servers hold) means nothing to another one. So the model gets its weights
before the exchange is established, which then gives them to servers and neighbours as in a new run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from polyrhythm.core.strategy.replica import Replica
from polyrhythm.core.torch_private.one_process import mark_stepped
from polyrhythm.core.trees import StateTree
from polyrhythm.errors import CheckpointError


def carry_weights(model: nn.Module, states: Sequence[StateTree]) -> None:
    """Give `model` the mean of the weights that the workers had, from the exported `states` of their replicas.

    Where all had the same, it is these to rounding. Raises CheckpointError for a model with other parameters.
    """
    parameters = dict(model.named_parameters())
    for name, total in _sums(states).items():
        own = parameters.get(name)
        if own is None or own.shape != total.shape:
            raise CheckpointError(
                f"The checkpoint has a parameter {name!r} of shape {list(total.shape)}, and this model has none: give it the same model."
            )
        with torch.no_grad():
            own.copy_(total / len(states))


def continue_elsewhere(replica: Replica, own: StateTree, states: Sequence[StateTree]) -> None:
    """Give an established replica its `own` buffers, and the optimizer what it has."""
    with torch.no_grad():
        for tensor, value in zip(replica.others, own["others"], strict=True):
            tensor.copy_(value)
    continue_optimizer(replica, own, states)


def continue_optimizer(replica: Replica, own: StateTree, states: Sequence[StateTree]) -> None:
    """Give the optimizer its `own` options, and the mean of what all workers' optimizers remember, unless servers step in its place."""
    exported: dict[str, Any] = {**own["optimizer"], "state": {}}
    if not replica.unused.optimizers:
        exported["state"] = _mean_of([state["optimizer"]["state"] for state in states])
    replica.unused.restore(exported)
    mark_stepped(replica.optimizer)
    replica.watch.restart()


def _sums(states: Sequence[StateTree]) -> dict[str, Tensor]:
    """The sum of each parameter over the workers."""
    sums: dict[str, Tensor] = {}
    for part in (part for state in states for part in state["parts"]):
        at, flat = 0, part["model"]["weights"]
        for name, shape in part["layout"].items():
            count = torch.Size(shape).numel()
            value = flat[at : at + count].view(shape).to("cpu", torch.float64)
            sums[name] = sums[name] + value if name in sums else value
            at += count
    return sums


def _mean_of(memories: Sequence[Mapping[Any, Mapping[str, Any]]]) -> dict[Any, dict[str, Any]]:
    """The mean of what optimizers remember of each parameter; what is no tensor of numbers, and counts of steps, is that of the first."""
    found: dict[Any, dict[str, Any]] = {}
    for parameter, known in memories[0].items():
        own = found[parameter] = dict(known)
        for name, value in known.items():
            others = [memory[parameter][name] for memory in memories if name in memory.get(parameter, {})]
            if isinstance(value, Tensor) and value.is_floating_point() and value.dim() and len(others) == len(memories):
                own[name] = torch.stack([each.to("cpu", torch.float64) for each in others]).mean(0).to(value.dtype)
    return found
