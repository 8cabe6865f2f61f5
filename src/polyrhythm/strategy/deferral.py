"""Steps that are taken parameter by parameter, each before the forward pass that needs it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from polyrhythm.errors import CompositionError, WorkloadError
from polyrhythm.kernel.job import WorkerContext
from polyrhythm.model.state import ModelState
from polyrhythm.pieces.topology import Tensors
from polyrhythm.strategy.arrivals import Arrivals, Departure
from polyrhythm.strategy.local_optimizer import LocalOptimizer, Options
from polyrhythm.strategy.waiting_places import WaitingPlaces
from polyrhythm.tensors import without_gradient


class DeferringPart(Protocol):
    """The part of a replica whose steps are deferred."""

    @property
    def optimizer(self) -> LocalOptimizer:
        """Takes the steps."""

    @property
    def state(self) -> ModelState:
        """The weights, and how many steps there were."""

    @property
    def context(self) -> WorkerContext:
        """The worker's runtime."""

    def look(self) -> None:
        """The weights are about to change."""

    def check_early(self, value: Tensor) -> None:
        """Raise DivergedError if `value`, which is about to leave, is not finite."""


class Deferral:
    """Sends each gradient when `backward()` has computed it; `step()` does not wait, and a module's forward pass waits for its own.

    `outstanding` are the numbers of the parameters whose last step has not been taken yet; it is taken with the `options` that the
    optimizer had at its `step()`, and `scale` times its learning rates; `departed` are their gradients as they left. Between steps, after
    `settle`, nothing is outstanding.
    """

    def __init__(self, model: nn.Module, tensors: Tensors, part: DeferringPart) -> None:
        self.tensors = tensors
        self.part = part
        self.parameters = part.optimizer.parameters
        self.outstanding: set[int] = set()
        self.options: Options = []
        self.scale = 1.0
        self.departed: dict[int, Departure] = {}
        self.places = WaitingPlaces(model, self.parameters.parameters)
        self.arrivals = Arrivals(self.parameters, self._send, part.check_early)
        self._hooks: list[Any] = [part.optimizer.optimizer.register_state_dict_pre_hook(_Hook(self._read))]
        for module in model.modules():
            self._hooks.append(module.register_forward_pre_hook(_Hook(self._enter), prepend=True))
            self._hooks.append(module.register_state_dict_pre_hook(_Hook(self._read)))  # type: ignore[no-untyped-call]

    @property
    def part_way(self) -> bool:
        """Whether some parameters have taken their last step and others have not."""
        return 0 < len(self.outstanding) < len(self.parameters.parameters)

    def begin_rest(self) -> None:
        """Take the steps that no forward pass has waited for, and send for the parameters that got no gradient."""
        self.settle()
        for number in range(len(self.parameters.parameters)):
            if number not in self.arrivals.came:
                self._begin(number, 1.0)

    def step(self) -> None:
        """Stand for `optimizer.step()`: what was sent is outstanding from now on."""
        self.departed = {self.arrivals.numbers[id(each.parameter)]: each for each in self.arrivals.reset()}
        self.outstanding = set(self.departed)
        self.options, self.scale = self.part.optimizer.options_now(), self.part.state.scale_of_mean
        self.places.learn()
        if self.part.optimizer.clip_norm is not None:  # of the whole gradient
            self.settle()
        else:
            self._settle(self.places.without_place(sorted(self.outstanding)))

    def settle(self) -> None:
        """Take all steps that are outstanding: the weights are then those after the last `optimizer.step()`."""
        self._settle(sorted(self.outstanding))

    def close(self) -> None:
        """Settle, and stand behind the model and the optimizer no more."""
        self.settle()
        self.arrivals.close()
        if self.arrivals.came:  # a backward() without a step: the others have sent theirs too, and nobody steps on the sums
            self.begin_rest()
            self.part.context.perform(self.tensors.receive(range(len(self.parameters.parameters))))
        for hook in self._hooks:
            hook.remove()

    def _enter(self, module: nn.Module) -> None:
        numbers = [number for number in self.places.call(module) if number in self.outstanding]
        if numbers:
            missing = sum(self.parameters.parameters[number].numel() for number in self.outstanding)
            with _undisturbed(self.parameters.flat.device.type):
                self.part.context.reach(1 - missing / max(1, self.parameters.layout.numel))
                self._settle(numbers)

    def _read(self, reader: object) -> None:
        self.settle()

    def _send(self, number: int) -> None:
        if number in self.outstanding:
            name = self.parameters.layout.names[number]
            raise WorkloadError(
                f"{name} got a gradient, and its last step has not been taken: no module that owns it, or is around one, was called since. "
                "Use a parameter inside the forward pass of its module, or take Summation without Deferred."
            )
        self._begin(number, self.arrivals.done)

    def _begin(self, number: int, done: float) -> None:
        value = self.arrivals.take([self.parameters.parameters[number]])
        self.part.context.begin(self.tensors.send(number, value, self.part.state.clock + 1), done)

    def _settle(self, numbers: Sequence[int]) -> None:
        """Wait for the merged gradients of some parameters, and step on them."""
        if not numbers:
            return
        with _undisturbed(self.parameters.flat.device.type):
            means = self.part.context.perform(self.tensors.receive(numbers))
            if not self.part_way:
                self.part.look()
            self.outstanding.difference_update(numbers)
            self._step_on(numbers, means)

    def _step_on(self, numbers: Sequence[int], means: Sequence[Tensor]) -> None:
        """A gradient that nobody has touched since it left gives way to the merged one, as in any exchange; others come back."""
        stepping, touched = [], []
        for number, mean, absent in zip(numbers, means, without_gradient(means), strict=True):
            parameter = self.parameters.parameters[number]
            if parameter.grad is None or not self.departed[number].untouched:
                touched.append((parameter, parameter.grad))
            parameter.grad = None if absent else mean.to(parameter.device).view(parameter.shape)
            if not absent:
                stepping.append(parameter)
        self.part.optimizer.step_these(stepping, self.options, self.scale)
        for parameter, grad in touched:
            parameter.grad = grad


class _Hook:
    """Passes on what it is called for. A copy of the model, or one that was pickled, has hooks that do nothing."""

    __slots__ = ("_call",)

    def __init__(self, call: Callable[[Any], None]) -> None:
        self._call = call

    def __call__(self, subject: object, *others: object) -> None:
        self._call(subject)

    def __reduce__(self) -> tuple[Any, ...]:
        return _Nothing, ()


class _Nothing:
    """What a copied hook does."""

    def __call__(self, *given: object) -> None:
        return None


@contextmanager
def _undisturbed(device_type: str) -> Iterator[None]:
    """Outside the modes in which a forward pass may run: an optimizer's state must not be made in them."""
    with ExitStack() as stack:
        if torch.is_inference_mode_enabled():
            stack.enter_context(torch.inference_mode(False))
        if torch.is_autocast_enabled(device_type):
            stack.enter_context(torch.autocast(device_type, enabled=False))
        yield


def refuse_coupled(optimizer: torch.optim.Optimizer) -> None:
    """Raise CompositionError for an optimizer that may look at several parameters at once: those of torch.optim do not."""
    if not type(optimizer).__module__.startswith("torch.optim"):
        raise CompositionError(
            f"{type(optimizer).__name__} is none of torch.optim's optimizers and may look at all parameters in a step, but under Deferred "
            "each takes its step alone: use one of torch.optim's, or Summation without Deferred."
        )
