"""Weights that change although the attached `optimizer.step()` was not called: such changes would not be exchanged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakValueDictionary

import torch
from torch import Tensor
from torch.optim.optimizer import register_optimizer_step_pre_hook

from polyrhythm.core.strategy.gradients import Parameters
from polyrhythm.core.strategy.watching.drift import is_put_back
from polyrhythm.core.torch_private.one_process import version
from polyrhythm.core.weights.wrapped_optimizer import advice
from polyrhythm.errors import WorkloadError

_SAMPLE = 1024
"""The number of elements in a sample of the weights: a step of an optimizer changes nearly all of them."""


@dataclass(frozen=True, slots=True)
class Glance:
    """The state at one moment: the worker's steps, those that the library took, torch's count of writes, and a sample of weights.

    `awaited` is True if part of a step was still to come, so that the library writes weights until the next one.
    """

    clock: int
    taken: int
    versions: int
    sample: Sequence[Tensor]
    awaited: bool = False


@dataclass(frozen=True, slots=True)
class OutsideStep:
    """A step of another optimizer on the parameters of an attached one, and the state before it."""

    optimizer: torch.optim.Optimizer
    before: Glance


class OptimizerSteps:
    """Is notified of every step of every optimizer of this process; `strangers` counts steps on parameters that nobody watches."""

    def __init__(self) -> None:
        self.strangers = 0
        self._watches: WeakValueDictionary[int, StepWatch] = WeakValueDictionary()
        self.hook: Callable[..., None] = self._note
        """The pre-hook of all optimizers that notifies; the steps that the library takes need not call it."""
        self._handle: Any = None

    def enter(self, watch: StepWatch) -> None:
        """Notify `watch` of steps on its parameters from now on. It keeps them in memory, so that no other tensor gets their ids."""
        if self._handle is None:
            self._handle = register_optimizer_step_pre_hook(self.hook)
        self._watches.update((id(parameter), watch) for parameter in watch.parameters)

    def leave(self, watch: StepWatch) -> None:
        """Notify `watch` no more."""
        for parameter in watch.parameters:
            self._watches.pop(id(parameter), None)

    def _note(self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                if (watch := self._watches.get(id(parameter))) is not None:
                    watch.stepping(optimizer)
                    return
        self.strangers += 1


STEPS = OptimizerSteps()


class StepWatch:
    """Watches the parameters of one attached `optimizer`, which are in `shares`; `shared` is True if other workers write to them too.

    The worker's own steps are ignored: `inside` is above 0 while one is taken (`attached_step`), and `taken` counts them, including
    skipped ones. `outside` is a step of another optimizer since the last one.
    """

    def __init__(self, optimizer: torch.optim.Optimizer, shares: Sequence[Parameters], shared: bool) -> None:
        self.optimizer = optimizer
        self.shares = shares
        self.shared = shared
        self._clock: Callable[[], int] = lambda: 0
        self._awaits: Callable[[], bool] = lambda: False
        self.taken = 0
        self.inside = 0
        self.outside: OutsideStep | None = None
        self._began: Glance | None = None
        self._shown: Glance | None = None
        self._used = False
        self._strangers = 0
        self.parameters = [parameter for share in shares for parameter in share.parameters]

    @property
    def has_changed(self) -> bool:
        """True if the weights differ from those at the start, by whatever write."""
        return self._began is not None and self._changed(self._began, written=True)

    def begin(self, clock: Callable[[], int], awaits: Callable[[], bool]) -> None:
        """Start with the current weights. `clock` returns the number of steps, `awaits` True if part of them is still to come."""
        STEPS.enter(self)
        self._clock, self._awaits = clock, awaits
        self.restart()

    def restart(self) -> None:
        """Compare with the current weights from now on: training continues from them."""
        self.outside, self._began, self._shown, self._used, self._strangers = None, self.look(), None, False, STEPS.strangers

    def close(self) -> None:
        """End the watch: the run is over, and the weights are the user's."""
        STEPS.leave(self)

    def look(self) -> Glance:
        """The state at this moment."""
        return Glance(self._clock(), self.taken, self._versions(), self._sample(), self._awaits())

    def stepping(self, optimizer: torch.optim.Optimizer) -> None:
        """Note that `optimizer` is about to step on parameters that are watched here."""
        if self.inside or self.outside is not None:
            return
        if not any(held is self.optimizer for held in vars(optimizer).values()):  # else it steps by the one that is attached
            self.outside = OutsideStep(optimizer, self.look())

    def refuse_batch(self, before: Glance) -> None:
        """Raise WorkloadError if the batch that was drawn `before` has changed the weights, and no step was taken.

        Where other workers write to the weights too, that cannot be determined for one batch.
        """
        self._used = True
        if not self.shared and self._clock() == before.clock and self.taken == before.taken and self._changed(before):
            raise WorkloadError(self._sentence("A batch has changed the weights"))

    def refuse_step(self) -> None:
        """Raise WorkloadError, at the start of a step, if another optimizer has changed the weights since the last one."""
        outside, self.outside = self.outside, None
        if outside is not None and self._changed(outside.before, written=True):
            self.outside = outside
            raise WorkloadError(self._sentence("The weights were changed outside the steps that are exchanged"))

    def refuse_shown(self) -> None:
        """Raise WorkloadError, when the training function reports, if the weights change without a step."""
        self._used = True
        self._refuse_outside()
        if not self.shared and self._clock() == 0 and self.taken == 0:
            if self._shown is None:
                self._shown = self.look()
            elif any(each.grad is not None for each in self.parameters) and self._changed(self._shown):
                raise WorkloadError(self._sentence("The weights have changed since the last report"))

    def refuse_end(self) -> None:
        """Raise WorkloadError, at the end of the training function, if it has changed the weights without a step."""
        self._refuse_outside()
        if self._clock() or self.taken or self._began is None:
            return
        computed = any(each.grad is not None for each in self.parameters)
        if self._changed(self._began, written=computed):
            raise WorkloadError(self._sentence("The weights have changed since worker.attach"))
        if self._used and (strangers := STEPS.strangers - self._strangers):
            raise WorkloadError(
                f"{strangers} steps were taken on parameters that are not attached, and none on those that are, so nothing was exchanged: "
                "give worker.attach the model and the optimizer that are trained, and no copies of them."
            )

    def _refuse_outside(self) -> None:
        if self.outside is not None and self._changed(self.outside.before, written=True):
            raise WorkloadError(self._sentence("The weights have changed"))

    def _versions(self) -> int:
        return sum([version(each) for each in self.parameters])

    def _sample(self) -> list[Tensor]:
        return [flat[:: max(1, len(flat) // _SAMPLE) | 1].clone() for flat in map(Parameters.values, self.shares)]

    def _changed(self, before: Glance, written: bool = False) -> bool:
        """True if the weights differ by more than rounding, and this worker has written them.

        Where others write to them too, torch's count says whether it has, if it is not known that it must have `written`.
        """
        written = written or not all(share.in_place for share in self.shares)
        if before.awaited or (self.shared and not written and self._versions() == before.versions):
            return written
        return not all(is_put_back(now, then) for now, then in zip(self._sample(), before.sample, strict=True))

    def _sentence(self, what: str) -> str:
        attached = type(self.optimizer).__name__
        if self.outside is None:
            return (
                f"{what}, but step() of the attached {attached} was not called, so nothing of it is exchanged: call step() of the "
                "optimizer that worker.attach returned, and write an update of your own as the step() of a torch.optim.Optimizer."
            )
        other = self.outside.optimizer
        name = type(other).__name__
        if other is self.optimizer:
            return (
                f"The step() that {name} had before worker.attach was called, so nothing of it is exchanged: call optimizer.step(), which "
                "worker.attach has replaced, and no method that was kept from before."
            )
        return (
            f"{name} has stepped on parameters of the attached {attached} and is not attached, so nothing of it is exchanged: call "
            f"{attached}'s step(), and no other on the same parameters.{advice(self.optimizer)}"
        )
