"""Gradients that leave during `backward()`, as it computes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch import Tensor, nn

from polyrhythm.core.strategy.gradients import Parameters
from polyrhythm.core.torch_private.one_process import version
from polyrhythm.errors import WorkloadError


@dataclass(frozen=True, slots=True)
class Departure:
    """A parameter whose gradient has left, and that gradient as it was."""

    parameter: nn.Parameter
    grad: Tensor | None
    version: int

    @property
    def untouched(self) -> bool:
        """True if the parameter still has the gradient that has left."""
        return self.parameter.grad is self.grad and (self.grad is None or version(self.grad) == self.version)


class Arrivals:
    """Calls `arrive` with each parameter's number when its gradient is computed, and remembers which gradients have left.

    `check` is called with each value before it leaves. Hooks only hand values over: the simulator cannot let others run inside
    `backward()`.
    """

    def __init__(self, parameters: Parameters, arrive: Callable[[int], None], check: Callable[[Tensor], None]) -> None:
        self.parameters = parameters
        self.arrive = arrive
        self.check = check
        self.numbers = {id(parameter): number for number, parameter in enumerate(parameters.parameters)}
        self.came: set[int] = set()
        self._elements = 0
        self._left: list[Departure] = []
        self._hooks = [p.register_post_accumulate_grad_hook(self._come) for p in parameters.parameters]  # type: ignore[no-untyped-call]

    @property
    def done(self) -> float:
        """The fraction of the backward pass that has been computed, from 0 to 1, by elements."""
        return self._elements / max(1, self.parameters.layout.numel)

    def take(self, parameters: Sequence[nn.Parameter]) -> Tensor:
        """The gradients of some parameters, end to end, on the CPU; they count as sent from now on."""
        value = self.parameters.gather(parameters)
        self.check(value)
        self.leave(parameters)
        return value.cpu()

    def leave(self, parameters: Sequence[nn.Parameter]) -> None:
        """Note that the gradients of some parameters have been sent, and must not change until `optimizer.step()`."""
        self._left += [Departure(p, p.grad, 0 if p.grad is None else version(p.grad)) for p in parameters]

    def refuse_changes(self) -> None:
        """Raise WorkloadError if gradients that have left are not those that `optimizer.step()` finds."""
        if not all(departure.untouched for departure in self._left):
            raise WorkloadError(
                "Gradients were changed between backward() and optimizer.step(), and they had been exchanged, or stepped on, "
                "already: clip with attach(..., clip_norm=...), call zero_grad() before backward(), or use a topology that exchanges in "
                "step(), such as AllReduce, or Gossip without Deferred."
            )

    def reset(self) -> list[Departure]:
        """Start the next step; returns the gradients that have left in this one."""
        left, self._left = self._left, []
        self.came = set()
        self._elements = 0
        return left

    def close(self) -> None:
        """Remove the hooks from the parameters."""
        for hook in self._hooks:
            hook.remove()

    def _come(self, parameter: Tensor) -> None:
        number = self.numbers[id(parameter)]
        if number in self.came:
            raise WorkloadError(
                "A parameter got a gradient twice before optimizer.step(), and exchanges begin during backward(): call optimizer.step() "
                "after each backward(), sum the losses before one backward(), or use a topology that exchanges in step(), such as "
                "AllReduce, or Gossip without Deferred."
            )
        self.came.add(number)
        self._elements += parameter.numel()
        self.arrive(number)
