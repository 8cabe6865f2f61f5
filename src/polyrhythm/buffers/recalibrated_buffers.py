"""Batch-norm statistics recomputed with the final weights."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from polyrhythm.core.protocols.buffers import Keeper
from polyrhythm.core.protocols.modes import Modes, modes, set_modes
from polyrhythm.core.settings import checked
from polyrhythm.core.torch_private.one_process import BatchNorm
from polyrhythm.errors import CompositionError


@dataclass(frozen=True, slots=True)
@checked
class RecalibratedBuffers:
    """Batch norm's statistics are those of the last `batches` batches of each worker under the final weights, averaged over the workers.

    (As torch.optim.swa_utils.update_bn does for averaged weights; Izmailov et al., 2018, section 3.2.) The inputs of the model's last
    forward passes in training are kept for it, so it takes the memory of `batches` batches. Each is run again with every module in the
    mode that it was in: a layer that did not train keeps its statistics.
    """

    batches: int = 8

    def __post_init__(self) -> None:
        if self.batches < 1:
            raise CompositionError(
                f"RecalibratedBuffers(batches={self.batches}) has no batches to compute statistics from: give 1 or more."
            )

    @property
    def averaged(self) -> bool:
        return True

    def keeper(self, model: nn.Module) -> Keeper:
        """A keeper that records the inputs of `model` from now on."""
        return _Recent(model, self.batches)


@dataclass(frozen=True, slots=True)
class _Call:
    arguments: tuple[Any, ...]
    named: dict[str, Any]
    modes: Modes


class _Recent:
    """The latest calls of a model in training."""

    def __init__(self, model: nn.Module, most: int) -> None:
        self.model = model
        self.calls: deque[_Call] = deque(maxlen=most)
        self.layers = [layer for layer in model.modules() if isinstance(layer, BatchNorm) and layer.running_mean is not None]
        if self.layers:
            model.register_forward_pre_hook(self._note, with_kwargs=True)

    def _note(self, model: nn.Module, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
        if model.training and torch.is_grad_enabled():
            self.calls.append(_Call(_detached(arguments), _detached(named), modes([model])))

    def renew(self) -> None:
        """Run the calls again, each in its modes, with statistics that weigh all of them equally."""
        if not self.layers:
            return
        if not self.calls:
            raise CompositionError(
                f"RecalibratedBuffers saw no training pass of {type(self.model).__name__}, so it has no batches for statistics: "
                "call the attached module itself in the training loop, or use MeanBuffers."
            )
        trained = {id(module) for call in self.calls for module, training in call.modes if training}
        with ExitStack() as stack, torch.no_grad():
            stack.callback(set_modes, modes([self.model]))
            for layer in self.layers:
                if id(layer) in trained:
                    stack.callback(_end, layer, layer.momentum, [buffer.clone() for buffer in layer.buffers()])
                    layer.reset_running_stats()
                    layer.momentum = None  # a plain mean
            for call in self.calls:  # not recorded, because gradients are off
                set_modes(call.modes)
                self.model(*call.arguments, **call.named)


def _end(layer: BatchNorm, momentum: float | None, before: list[Tensor]) -> None:
    """Restore the momentum of `layer`, and its statistics too if no call reached it."""
    layer.momentum = momentum
    assert layer.num_batches_tracked is not None
    if layer.num_batches_tracked == 0:
        for buffer, value in zip(layer.buffers(), before, strict=True):
            buffer.copy_(value)


def _detached(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.detach()
    if isinstance(value, Mapping):
        return {name: _detached(part) for name, part in value.items()}
    if type(value) in (tuple, list):
        return type(value)(_detached(part) for part in value)
    return value


EXAMPLES = (RecalibratedBuffers(4),)
