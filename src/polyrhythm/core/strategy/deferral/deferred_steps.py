"""The two kinds of deferred step: the values that leave of a parameter during `backward()`, and the use of their results."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

import torch
from torch import Tensor

from polyrhythm.core.protocols.traits import Payload
from polyrhythm.core.strategy.deferral.arrivals import Arrivals, Departure
from polyrhythm.core.strategy.local_optimizer import Options
from polyrhythm.core.strategy.local_part import LocalPart
from polyrhythm.core.tensors import without_gradient
from polyrhythm.core.weights.wrapped_optimizer import advice
from polyrhythm.errors import CompositionError, WorkloadError


class DeferredSteps(Protocol):
    """A kind of deferred step. Parameters are named by their numbers in the order of the layout."""

    def begins(self) -> bool:
        """True if the values of the step that `backward()` prepares leave during `backward()`."""

    def leave(self, number: int) -> Tensor:
        """The value (numel,) to send of a parameter that has its gradient, or is to get none; not in the model's memory."""

    def rest(self, left: Collection[int]) -> Sequence[int]:
        """The parameters whose values leave at the start of `optimizer.step()`; those of `left` have left before."""

    def step(self, departed: Mapping[int, Departure]) -> None:
        """Note that all values have left: results are awaited from now on."""

    def undo(self) -> None:
        """Undo the changes of `leave` to the weights: the run ends before this step."""

    @property
    def needs_all(self) -> bool:
        """True if no result can be applied before all have come."""

    def arrive(self, numbers: Sequence[int], merged: Sequence[Tensor]) -> None:
        """Apply the merged values of some parameters (numel of each,)."""


class StepsOnMeans:
    """Gradients leave, and the optimizer steps on their means, with the options that it had at its `step()`.

    `departed` are the gradients as they left; `scale` is the factor of the learning rates.
    """

    def __init__(self, local: LocalPart, arrivals: Arrivals) -> None:
        self.local = local
        self.arrivals = arrivals
        self.parameters = local.optimizer.parameters
        self.options: Options = []
        self.scale = 1.0
        self.departed: Mapping[int, Departure] = {}

    def begins(self) -> bool:
        """Gradients leave in the `backward()` of every step."""
        return True

    def leave(self, number: int) -> Tensor:
        """The gradient of the parameter, as it is sent."""
        return self.arrivals.take([self.parameters.parameters[number]])

    def rest(self, left: Collection[int]) -> Sequence[int]:
        """The parameters that got no gradient: another worker may have one."""
        return [number for number in range(len(self.parameters.parameters)) if number not in left]

    def step(self, departed: Mapping[int, Departure]) -> None:
        """Keep the current options, which a scheduler may change before the means come."""
        self.departed = departed
        self.options, self.scale = self.local.optimizer.options_now(), self.local.state.scale_of_mean

    def undo(self) -> None:
        """There is nothing to undo."""

    @property
    def needs_all(self) -> bool:
        """True where the norm is clipped, which needs the whole gradient."""
        return self.local.optimizer.clip_norm is not None

    def arrive(self, numbers: Sequence[int], merged: Sequence[Tensor]) -> None:
        """Step on the merged gradients. A gradient that was touched since it left is restored afterwards; others are replaced."""
        stepping, touched = [], []
        for number, mean, absent in zip(numbers, merged, without_gradient(merged), strict=True):
            parameter = self.parameters.parameters[number]
            if parameter.grad is None or not self.departed[number].untouched:
                touched.append((parameter, parameter.grad))
            parameter.grad = None if absent else mean.to(parameter.device).view(parameter.shape)
            if not absent:
                stepping.append(parameter)
        self.local.optimizer.step_these(stepping, self.options, self.scale)
        for parameter, grad in touched:
            parameter.grad = grad


class StepsThenMixes:
    """The optimizer steps on a parameter as soon as that has its gradient; the weights leave, and the mixed ones replace them.

    `options` are those with which the current step started, None before it. Where the whole gradient is clipped, and before an exchange
    that is not due, nothing happens until `optimizer.step()`. `before` are the weights before the step.
    """

    def __init__(self, local: LocalPart, arrivals: Arrivals) -> None:
        self.local = local
        self.arrivals = arrivals
        self.parameters = local.optimizer.parameters
        self.options: Options | None = None
        self.before: dict[int, Tensor] = {}

    def begins(self) -> bool:
        """True where an exchange follows this step and the gradient is not clipped."""
        return self.local.optimizer.clip_norm is None and self._due(self.local.state.clock + 1)

    def leave(self, number: int) -> Tensor:
        """The weights of the parameter after its step."""
        parameter, optimizer = self.parameters.parameters[number], self.local.optimizer
        if self.options is None:
            self.options = optimizer.options_now()
        if parameter.grad is not None:
            self.before[number] = parameter.detach().clone()
            optimizer.step_these([parameter], self.options, 1.0)
            self.local.writes.early = True
        weights = parameter.detach().reshape(-1)
        self.local.check_early(weights)
        self.arrivals.leave([parameter])
        return weights.cpu() if weights.device.type != "cpu" else weights.clone()

    def rest(self, left: Collection[int]) -> Sequence[int]:
        """All parameters that have not left, where an exchange follows. Raises WorkloadError if the step's options have changed."""
        optimizer = self.local.optimizer
        if left and (optimizer.clip_norm is not None or not _same(self.options or [], optimizer.options_now())):
            raise WorkloadError(
                "The optimizer's options were changed between backward() and optimizer.step(), or gradients were to be clipped then, and "
                "steps had been taken in backward() already: change learning rates before backward(), clip with attach(..., "
                "clip_norm=...), or use Gossip without Deferred, which steps in step()."
            )
        if not self._due(self.local.state.clock + 1):
            return ()
        optimizer.clip()
        return [number for number in range(len(self.parameters.parameters)) if number not in left]

    def step(self, departed: Mapping[int, Departure]) -> None:
        """Forget the options and the old weights: the next step may have others."""
        self.options = None
        self.before = {}

    def undo(self) -> None:
        """Restore the weights from before the step."""
        with torch.no_grad():
            for number, weights in self.before.items():
                self.parameters.parameters[number].copy_(weights)

    @property
    def needs_all(self) -> bool:
        """False: each parameter is mixed by itself."""
        return False

    def arrive(self, numbers: Sequence[int], merged: Sequence[Tensor]) -> None:
        """Replace the weights by the mixed ones, for the next forward pass."""
        with torch.no_grad():
            for number, weights in zip(numbers, merged, strict=True):
                parameter = self.parameters.parameters[number]
                parameter.copy_(weights.view(parameter.shape))

    def _due(self, clock: int) -> bool:
        context = self.local.state.context.changed(clock=clock)
        return self.local.agreement.conditions.exchanges(context)


DEFERRED_STEPS: Mapping[Payload, type[StepsOnMeans] | type[StepsThenMixes]] = {
    Payload.GRADIENT: StepsOnMeans,
    Payload.WEIGHTS: StepsThenMixes,
}


def refuse_coupled(optimizer: torch.optim.Optimizer) -> None:
    """Raise CompositionError for an optimizer outside torch.optim, which may look at several parameters at once."""
    if not type(optimizer).__module__.startswith("torch.optim"):
        raise CompositionError(
            f"{type(optimizer).__name__} is none of torch.optim's optimizers and may look at all parameters in a step, but under Deferred "
            f"each takes its step alone: use one of torch.optim's, or the same topology without Deferred.{advice(optimizer)}"
        )


def _same(options: Options, others: Options) -> bool:
    return all(
        one.keys() == other.keys() and all(bool(one[key] == other[key]) for key in one) for one, other in zip(options, others, strict=True)
    )
