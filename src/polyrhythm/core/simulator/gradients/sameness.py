"""Whether models have the same code, so that their weights may be stacked, and whether one may be computed apart from its program."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import torch
from torch import nn

from polyrhythm.core.simulator.gradients.calls import ComputingProgram, ModelSeat
from polyrhythm.core.simulator.gradients.values import SIMPLE
from polyrhythm.core.torch_private.gradient_sharing import has_hooks, has_saved_tensor_hooks, is_transforming
from polyrhythm.core.torch_private.one_process import backward_pass, version

_OWN = frozenset(vars(nn.Module()))
"""What every module has: its parameters, buffers, modules and hooks, and whether it trains."""
_LARGE = (torch.jit.ScriptModule, torch.nn.parallel.DistributedDataParallel)


def seat_of(program: ComputingProgram, model: nn.Module, refusal: str) -> ModelSeat:
    """The seat of a model that was attached."""
    modules, parameters = list(model.modules()), list(model.parameters())
    if isinstance(model, _LARGE) or "forward" in vars(model):
        refusal = refusal or f"{type(model).__name__} has a forward pass of its own kind"
    return ModelSeat(program, model, refusal, parameters, modules, _code(model, modules), sum(each.nbytes for each in parameters))


def _code(model: nn.Module, modules: Sequence[nn.Module]) -> Hashable:
    """Equal for models of the same classes and shapes, whose attributes are simple or the same; None if an attribute is neither."""
    parts: list[Hashable] = []
    names = {id(each): name for name, each in model.named_modules()}
    for module in modules:
        own: list[Any] = [names[id(module)], type(module)]
        for name, value in vars(module).items():
            if name in _OWN or type(value) in SIMPLE or name.startswith("_polyrhythm"):
                continue
            if not (callable(value) or (type(value) is tuple and all(type(each) in SIMPLE for each in value))):
                return None
            own.append((name, value if type(value) is tuple else id(value)))
        parts.append(tuple(own))
    shapes = [(name, each.shape, each.dtype, each.requires_grad) for name, each in model.named_parameters()]
    return tuple(parts), tuple(shapes), tuple((name, each.shape, each.dtype) for name, each in model.named_buffers())


def settings_of_modules(modules: Sequence[nn.Module]) -> Hashable:
    """The simple attributes of all modules, such as whether they train, or a rate of dropout."""
    return tuple([value for module in modules for value in vars(module).values() if type(value) in SIMPLE])


def refusal_now(seat: ModelSeat) -> str:
    """Why the present call must be computed in place; "" if it need not."""
    if seat.refusal:
        return seat.refusal
    if has_hooks(seat.modules, seat.parameters):
        return "hooks are called in its passes, such as those that exchange gradients during backward()"
    if torch.is_autocast_enabled("cpu") or is_transforming() or has_saved_tensor_hooks() or torch.is_inference_mode_enabled():
        return "it is called under autocast, a transformation or hooks of saved tensors"
    if backward_pass() != -1:
        return "it is called in a backward pass"
    if not seat.program.can_wait:
        return "it is called under a dispatch mode"
    if seat.program.started or not seat.program.line.idle:
        return "exchanges are under way while it computes"
    return ""


def versions(seat: ModelSeat) -> list[tuple[int, int]]:
    """What tells whether a buffer was written to."""
    return [(id(each), version(each)) for each in seat.model.buffers()]
