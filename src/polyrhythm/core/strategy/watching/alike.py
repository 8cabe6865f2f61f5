"""A check that all workers start with the same model and optimizer."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import torch
from torch import nn

from polyrhythm.core.kernel.job import WorkerContext

_REMEDY = "attach the same model and optimizer at every worker, equally often and with the same clip_norm."


@dataclass(frozen=True, slots=True)
class Attached:
    """The arguments of one call of worker.attach, the `number`-th from 0; `trained` are the ids of the parameters that are exchanged."""

    model: nn.Module
    optimizer: torch.optim.Optimizer
    number: int
    clip_norm: float | None
    trained: Collection[int]


def begin_alike(context: WorkerContext, attached: Attached) -> None:
    """Raise CompositionError at all workers if their models, the kinds of their optimizers or the norms for clipping differ."""
    facts = {_named(attached.number): type(attached.optimizer).__name__}
    if attached.clip_norm is not None:
        facts["clip_norm"] = f"{attached.clip_norm:g}"
    model, trained = attached.model, attached.trained
    for name, parameter in model.named_parameters():
        facts[f"parameter {name}"] = f"{_kind(parameter)}{'' if id(parameter) in trained else ', not trained'}"
    for name, buffer in model.named_buffers():
        facts[f"buffer {name}"] = _kind(buffer)
    context.agree(facts, _REMEDY)


def _named(number: int) -> str:
    return "optimizer" if number == 0 else f"optimizer number {number + 1}"


def _kind(tensor: torch.Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')} {tuple(tensor.shape)}"
