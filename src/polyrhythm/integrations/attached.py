"""The optimizers that a worker has attached, for loops that hold them in wrappers of their own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn

from polyrhythm.core.strategy.replica import Replica
from polyrhythm.core.training.worker import Worker
from polyrhythm.errors import CompositionError


def attach(worker: Worker, models: Sequence[nn.Module], optimizer: torch.optim.Optimizer) -> None:
    """Attach `optimizer` with the first of `models` that has all its parameters, unless it is attached already."""
    if any(replica.optimizer is optimizer for replica in worker.attached):
        return
    held = {id(each) for group in optimizer.param_groups for each in group["params"]}
    for model in models:
        if held <= {id(each) for each in model.parameters()}:
            worker.attach(model, optimizer)
            return
    raise CompositionError(
        f"The parameters of {type(optimizer).__name__} are not those of one model that was prepared before it or with it: prepare the "
        "model and its optimizer together."
    )


def clip(worker: Worker, parameters: Iterable[Tensor], norm: float, kind: float = 2.0) -> Tensor:
    """Have the next step of the optimizer of `parameters` clip the gradient that it uses to `norm`: the merged one where there is one.

    Returns the norm of the worker's own gradient. Raises CompositionError for another `kind` than the Euclidean norm, and for parameters
    that are not those of one attached optimizer.
    """
    if float(kind) != 2.0:
        raise CompositionError(f"Gradients of several workers are clipped by their Euclidean norm only: leave norm_type={kind} out.")
    given = [each for each in parameters if each.grad is not None]
    total: Tensor = nn.utils.get_total_norm([each.grad for each in given if each.grad is not None])
    if norm != float("inf"):  # a question, of those who log it
        _of(worker, given).clip(norm)
    return total


def _of(worker: Worker, parameters: Sequence[Tensor]) -> Replica:
    wanted = {id(each) for each in parameters}
    for replica in worker.attached:
        if wanted <= replica.trained:
            return replica
    raise CompositionError(
        "The gradients to be clipped are not those of one attached optimizer, whose step would clip them: clip the parameters of one "
        "model, after it was prepared with its optimizer."
    )
