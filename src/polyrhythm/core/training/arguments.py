"""Checks of the arguments that a training function gives to its worker: wrong ones are refused at the call."""

from __future__ import annotations

from numbers import Real
from typing import Any

import torch
from torch import nn

from polyrhythm.core.settings import shown
from polyrhythm.errors import WorkloadError


def refuse_attached(model: object, optimizer: object, name: object) -> None:
    """Raise WorkloadError unless these are a model, an optimizer, and a name or None."""
    if isinstance(model, torch.optim.Optimizer) and isinstance(optimizer, nn.Module):
        raise WorkloadError("worker.attach was given the optimizer first and the model second: call worker.attach(model, optimizer).")
    if not isinstance(model, nn.Module):
        raise WorkloadError(f"worker.attach was given {shown(model)} as its model: give a torch.nn.Module, and its optimizer after it.")
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise WorkloadError(
            f"worker.attach was given {shown(optimizer)} as its optimizer: give a torch.optim.Optimizer of the model's parameters, such as "
            "torch.optim.SGD(model.parameters(), lr=0.1)."
        )
    if name is not None and (not isinstance(name, str) or not name):
        raise WorkloadError(f"worker.attach was given name={shown(name)}: give a text, or leave it out.")


def norm_bound(value: Any) -> float | None:
    """The `clip_norm` of `Worker.attach` as a float, or None. Raises WorkloadError for a value that bounds no norm."""
    if value is None:
        return None
    if isinstance(value, Real) and not isinstance(value, bool) and float(value) > 0:
        return float(value)
    raise WorkloadError(
        f"worker.attach was given clip_norm={shown(value)}, and gradients have no norm to be clipped to that: give a number above 0, or "
        "None to leave them as they are."
    )


def range_of(method: str, bounds: tuple[Any, ...]) -> range:
    """The `range` of the arguments of `Worker.range` or `Worker.epochs`. Raises WorkloadError for arguments that make none."""
    try:
        return range(*bounds)
    except (TypeError, ValueError) as problem:
        raise WorkloadError(
            f"worker.{method}({', '.join(map(shown, bounds))}) counts nothing ({problem}): give what range() takes, such as "
            f"worker.{method}(10)."
        ) from problem
