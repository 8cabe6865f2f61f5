"""A worker's replica: what happens at `optimizer.step()`."""

from __future__ import annotations

import json
from collections.abc import Callable
from types import MethodType
from typing import Any

import torch
from torch import Tensor, nn

from polyrhythm.errors import CompositionError, DivergedError
from polyrhythm.kernel.job import Stage
from polyrhythm.pieces.holder import Holder
from polyrhythm.pieces.hosting import describe
from polyrhythm.pieces.terms import Manner, Place, Subject
from polyrhythm.pieces.topology import Opening
from polyrhythm.strategy.gradients import Parameters
from polyrhythm.strategy.strategy import Strategy


class Replica:
    """One worker's model and optimizer under a strategy. `clock` counts its steps."""

    def __init__(self, model: nn.Module, optimizer: torch.optim.Optimizer, strategy: Strategy, place: Place, stage: Stage) -> None:
        self.model = model
        self.optimizer = optimizer
        self.terms = strategy.terms
        self.stage = stage
        self.place = place
        self.clock = 0
        self.clip_norm: float | None = None
        self.parameters = Parameters(model, optimizer)
        self.plain_step: Callable[[], Any] = optimizer.step
        gradients = self.terms.subject is Subject.GRADIENT
        served = strategy.topology.manner is Manner.SERVED
        self.hosted = gradients and served and self.terms.merge.rule is None
        self.holder = Holder(
            self.parameters.flat, self.parameters.layout, self.terms.merge, place.workers, self._optimize if gradients else None
        )
        if self.terms.subject is Subject.UPDATE:
            self.holder.drop_anchor()
        self.steps_locally = not gradients
        self.clips_own = self.steps_locally or served
        self.channel = strategy.topology.channel(self.terms, place, stage.port)

    def establish(self) -> None:
        """Begin with the weights of worker 0, and put the strategy behind `optimizer.step()`."""
        recipe = describe(self.optimizer, self.parameters.names) if self.hosted else ""
        self.stage.perform(self.channel.establish(Opening(self.holder, recipe))).settle(self.holder)
        replica = self

        def step(optimizer: torch.optim.Optimizer, closure: Callable[[], Any] | None = None) -> None:
            if closure is not None:
                raise CompositionError(
                    "optimizer.step(closure) evaluates the model several times a step, which no exchange can follow: call step()."
                )
            if getattr(optimizer, "grad_scale", None) is not None or getattr(optimizer, "found_inf", None) is not None:
                raise CompositionError(
                    "GradScaler lets each worker decide alone whether to step, so workers would lose each other: use torch.autocast with "
                    "bfloat16, which needs no scaler."
                )
            replica.step()

        self.optimizer.step = MethodType(step, self.optimizer)  # type: ignore[method-assign]
        # A GradScaler then hands its scale to step() instead of deciding by itself; step() can refuse with a reason.
        self.optimizer._step_supports_amp_scaling = True  # type: ignore[attr-defined]

    def step(self) -> None:
        """One step of this worker: computed already, now said, heard and merged as the strategy has it."""
        self.clock += 1
        if self.clips_own:
            self._clip()
        if self.steps_locally:
            self.plain_step()
            if self.terms.consistency.speaks(self.clock):
                self._exchange(self.holder.moved() if self.terms.subject is Subject.UPDATE else self.holder.weights)
        else:
            self._exchange(self.parameters.gradient())

    def _exchange(self, value: Tensor) -> None:
        if not torch.isfinite(value.sum()):
            raise DivergedError(
                f"The {self.terms.subject.value} of {self.stage.port.name} are not finite at step {self.clock}: the training diverged; "
                f"lower the learning rate, clip gradients (attach(..., clip_norm=1.0)), or check the data for NaN."
            )
        answer = self.stage.perform(self.channel.exchange(value.cpu(), self.clock, self.rates()))
        answer.settle(self.holder)

    def rates(self) -> tuple[float, ...]:
        """The learning rates of the optimizer's groups, as its scheduler has them now."""
        return tuple(float(group["lr"]) for group in self.optimizer.param_groups)

    def _optimize(self, gradient: Tensor, rates: tuple[float, ...]) -> None:
        self.parameters.put_gradient(gradient)
        if not self.clips_own:
            self._clip()
        self.plain_step()

    def _clip(self) -> None:
        if self.clip_norm is not None:
            nn.utils.clip_grad_norm_(self.parameters.parameters, self.clip_norm)

    def finish(self) -> None:
        """Bring the run to its end: afterwards the model holds the final weights."""
        if self.terms.subject is Subject.UPDATE and self.clock and not self.terms.consistency.speaks(self.clock):
            self._exchange(self.holder.moved())
        self.stage.perform(self.channel.finish()).settle(self.holder)

    def weights(self) -> dict[str, Tensor]:
        """Parameters and buffers by name, on the CPU, each in memory of its own."""
        return {name: tensor.detach().cpu().clone().contiguous() for name, tensor in self.model.state_dict().items()}

    def names(self) -> str:
        """The names of `weights()`, as JSON."""
        return json.dumps(list(self.model.state_dict()))
