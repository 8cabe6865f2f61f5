"""Steps that are taken parameter by parameter, each before the forward pass that needs it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, TypeVar

import torch
from torch import nn

from polyrhythm.core.protocols.offers import Tensors
from polyrhythm.core.strategy.deferral.arrivals import Arrivals
from polyrhythm.core.strategy.deferral.deferred_steps import DEFERRED_STEPS, DeferredSteps
from polyrhythm.core.strategy.deferral.waiting_places import WaitingPlaces
from polyrhythm.core.strategy.local_part import LocalPart
from polyrhythm.core.torch_private.one_process import break_graph_at
from polyrhythm.errors import WorkloadError

Waiting = TypeVar("Waiting", bound=Callable[..., None])


def _uncompiled(waiting: Waiting) -> Waiting:
    """`waiting`, at which torch.compile breaks the graph."""
    break_graph_at(waiting, "the forward pass waits for what other workers send")
    return waiting


class Deferral:
    """Sends each tensor when `backward()` has computed it; `step()` does not wait, and a module's forward pass waits for its own.

    `steps` decides which values leave and how results are applied. `left` are the numbers of the parameters of which a value has left since
    the last `step()`, and `outstanding` those whose results have not been awaited; `untouched` is True if that is so of all. Between steps,
    after `settle`, nothing is outstanding.
    """

    def __init__(self, model: nn.Module, tensors: Tensors, local: LocalPart) -> None:
        self.tensors = tensors
        self.local = local
        self.parameters = local.optimizer.parameters
        self.outstanding: set[int] = set()
        self.left: set[int] = set()
        self.untouched = False
        self._wait = torch.compiler.disable(self._wait_for)  # type: ignore[no-untyped-call]
        self.places = WaitingPlaces(model, self.parameters.parameters)
        self.arrivals = Arrivals(self.parameters, self._send, local.check_early)
        self.steps: DeferredSteps = DEFERRED_STEPS[local.agreement.payload](local, self.arrivals)
        self._hooks: list[Any] = [local.optimizer.optimizer.register_state_dict_pre_hook(_Hook(self._read))]
        for module in model.modules():
            self._hooks.append(module.register_forward_pre_hook(_Hook(self._enter), prepend=True))
            self._hooks.append(module.register_state_dict_pre_hook(_Hook(self._read)))  # type: ignore[no-untyped-call]

    @property
    def part_way(self) -> bool:
        """True if some parameters have taken their last step and others have not."""
        return 0 < len(self.outstanding) < len(self.parameters.parameters)

    def begin_rest(self) -> None:
        """At the start of `optimizer.step()`, settle the results that no forward pass has awaited, and send what has not left."""
        self.settle()
        for number in self.steps.rest(self.left):
            self._begin(number, 1.0)

    def step(self) -> bool:
        """Replace `optimizer.step()` if values have left for it: these are outstanding from now on. True if that is so."""
        departed = {self.arrivals.numbers[id(each.parameter)]: each for each in self.arrivals.reset()}
        if not self.left:
            return False
        self.left, self.outstanding = set(), set(departed)
        self.untouched = True
        self.local.writes.note()
        self.steps.step(departed)
        self.places.learn()
        if self.steps.needs_all:
            self.settle()
        else:
            self._settle(self.places.without_place(sorted(self.outstanding)))
        return True

    def settle(self) -> None:
        """Take all outstanding steps: the weights are then those after the last `optimizer.step()`."""
        self._settle(sorted(self.outstanding))

    def close(self) -> None:
        """Settle, and remove all hooks from the model and the optimizer."""
        self.settle()
        self.arrivals.close()
        if self.left:  # a backward() without a step: the others have sent theirs too, and the results are dropped
            every = range(len(self.parameters.parameters))
            for number in every:
                if number not in self.left:
                    self._begin(number, 1.0)
            self.local.context.perform(self.tensors.receive(every))
            self.steps.undo()
        for hook in self._hooks:
            hook.remove()

    @_uncompiled
    def _enter(self, module: nn.Module) -> None:
        numbers = [number for number in self.places.call(module) if number in self.outstanding]
        if numbers:
            self._wait(numbers)

    def _wait_for(self, numbers: Sequence[int]) -> None:
        missing = sum(self.parameters.parameters[number].numel() for number in self.outstanding)
        with _undisturbed(self.parameters.flat.device.type):
            self.local.context.reach(1 - missing / max(1, self.parameters.layout.numel))
            self._settle(numbers)

    def _read(self, reader: object) -> None:
        self.settle()

    def _send(self, number: int) -> None:
        if number in self.outstanding:
            name = self.parameters.layout.names[number]
            raise WorkloadError(
                f"{name} got a gradient, and its last step has not been taken: no module that owns it, or is around one, was called since. "
                "Use a parameter inside the forward pass of its module, or take the same topology without Deferred."
            )
        if self.steps.begins():
            self._begin(number, self.arrivals.done)

    def _begin(self, number: int, done: float) -> None:
        value = self.steps.leave(number)
        self.left.add(number)
        self.local.context.begin(self.tensors.send(number, value, self.local.state.clock + 1), done)

    def _settle(self, numbers: Sequence[int]) -> None:
        """Wait for the merged values of some parameters, and apply them."""
        if not numbers:
            return
        with _undisturbed(self.parameters.flat.device.type):
            self._refuse_writes()
            merged = self.local.context.perform(self.tensors.receive(numbers))
            if not self.part_way:
                self.local.look()
            self.outstanding.difference_update(numbers)
            self.steps.arrive(numbers, merged)
            if not self.outstanding:
                self.local.writes.note()

    def _refuse_writes(self) -> None:
        if self.untouched:  # looked at once a step: before the first of its tensors
            self.untouched = False
            self.local.writes.refuse_under_way(self.local.state.clock)


class _Hook:
    """Calls `call` with the subject of the hook. A copy of the model, or one that was pickled, has hooks that do nothing."""

    __slots__ = ("_call",)

    def __init__(self, call: Callable[[Any], None]) -> None:
        self._call = call

    def __call__(self, subject: object, *others: object) -> None:
        self._call(subject)

    def __reduce__(self) -> tuple[Any, ...]:
        return _Nothing, ()


class _Nothing:
    """A copied hook, which does nothing."""

    def __call__(self, *given: object) -> None:
        return None


@contextmanager
def _undisturbed(device_type: str) -> Iterator[None]:
    """Leave the autograd modes in which a forward pass may run: an optimizer's state must not be made in them."""
    with ExitStack() as stack:
        if torch.is_inference_mode_enabled():
            stack.enter_context(torch.inference_mode(False))
        if torch.is_autocast_enabled(device_type):
            stack.enter_context(torch.autocast(device_type, enabled=False))
        yield
