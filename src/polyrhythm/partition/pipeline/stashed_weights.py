"""Weights of earlier steps, kept for batches that are still on their way when the weights are updated (Narayanan et al., 2019)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn


@dataclass(frozen=True, slots=True)
class _Slot:
    """A place in the model that has a parameter, which may have others."""

    module: nn.Module
    name: str
    parameter: nn.Parameter


class StashedWeights:
    """The weights of a rank that uses gradients `delay` steps late.

    Each batch passes with a copy of the weights of its own step, moved on by `look_ahead` times their last change, as Nesterov's momentum
    does. Copies are dropped when a batch is `done` steps old, by when its backward passes are over; its gradients wait for their step.
    """

    def __init__(self, model: nn.Module, delay: int, done: int, look_ahead: float) -> None:
        self._slots = [
            _Slot(module, name, parameter)
            for module in model.modules()
            for name, parameter in module._parameters.items()
            if parameter is not None
        ]
        self._delay, self._done, self._look_ahead = delay, done, look_ahead
        self._copies: dict[int, dict[nn.Parameter, nn.Parameter]] = {}
        self._gradients: dict[int, dict[nn.Parameter, Tensor]] = {}
        self._before: dict[nn.Parameter, Tensor] = {}

    @property
    def kept(self) -> int:
        groups: list[dict[nn.Parameter, Any]] = [*self._copies.values(), *self._gradients.values(), self._before]
        return sum(each.numel() for group in groups for each in group.values())

    def begin(self, step: int) -> None:
        parameters = {slot.parameter: None for slot in self._slots}
        with torch.no_grad():
            self._copies[step] = {each: nn.Parameter(self._ahead(each), each.requires_grad) for each in parameters}
            if self._look_ahead:
                self._before = {each: each.detach().clone() for each in parameters}

    def _ahead(self, parameter: nn.Parameter) -> Tensor:
        now = parameter.detach().clone()
        return now + self._look_ahead * (now - self._before[parameter]) if parameter in self._before else now

    @contextmanager
    def of(self, batch: int) -> Iterator[None]:
        copies = self._copies[batch]
        for slot in self._slots:
            setattr(slot.module, slot.name, copies[slot.parameter])
        try:
            yield
        finally:
            for slot in self._slots:
                setattr(slot.module, slot.name, slot.parameter)

    def finish(self, step: int) -> None:
        if (copies := self._copies.pop(step - self._done, None)) is not None:
            self._gradients[step - self._done] = {each: copy.grad for each, copy in copies.items() if copy.grad is not None}
        for parameter, gradient in self._gradients.pop(step - self._delay, {}).items():
            parameter.grad = gradient if parameter.grad is None else parameter.grad + gradient
