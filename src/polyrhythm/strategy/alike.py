"""What must be alike at all workers: their models when they begin."""

from __future__ import annotations

from collections.abc import Collection

import torch
from torch import nn

from polyrhythm.kernel.job import WorkerContext


def begin_alike(context: WorkerContext, model: nn.Module, optimizer: torch.optim.Optimizer, trained: Collection[int]) -> None:
    """Raise CompositionError at all workers if their models or the kinds of their optimizers differ; `trained` are ids of parameters."""
    facts = {"optimizer": type(optimizer).__name__}
    for name, parameter in model.named_parameters():
        facts[f"parameter {name}"] = f"{_kind(parameter)}{'' if id(parameter) in trained else ', not trained'}"
    for name, buffer in model.named_buffers():
        facts[f"buffer {name}"] = _kind(buffer)
    context.agree(facts, "attach the same model and optimizer at every worker.")


def _kind(tensor: torch.Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')} {tuple(tensor.shape)}"
