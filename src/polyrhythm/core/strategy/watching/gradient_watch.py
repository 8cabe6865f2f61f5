"""A check that a worker computes gradients for the model it steps: training does, evaluation alone computes none."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from polyrhythm.core.strategy.watching.step_watch import StepWatch
from polyrhythm.core.torch_private.one_process import backward_pass, version
from polyrhythm.errors import WorkloadError


@dataclass(slots=True)
class _Turn:
    """The watch that looked last in this process, which has all workers in the simulator."""

    watch: GradientWatch | None = None


_TURN = _Turn()


class GradientWatch:
    """Watches one worker: it has `computed` gradients since it attached a model, and one has `reached` an attached parameter.

    Torch does not report the former, but numbers the backward passes of a process. New numbers between two looks of one worker are this
    worker's if no other worker has looked in between; else nothing is concluded.
    """

    def __init__(self) -> None:
        self.computed = False
        self.reached = False
        self.watches: list[StepWatch] = []
        self._before: dict[int, tuple[Tensor, int]] = {}
        self._since: int | None = None

    def attached(self, watch: StepWatch) -> None:
        """Watch another attached model too; gradients that it has already do not count."""
        self.watches.append(watch)
        self._pass(watch.parameters)
        self.go_on()

    def stepped(self) -> None:
        """Note that a step is over; gradients that it has left, such as merged ones, do not count."""
        if not self.reached:
            self._pass(self._parameters())
            self.go_on()
        _TURN.watch = self

    def go_on(self) -> None:
        """Count gradients from here on as the worker's."""
        _TURN.watch = self
        if self.watches and not self.computed and not self.reached:
            self._since = _next_number()

    def look(self) -> None:
        """Note what the worker has computed up to here."""
        if self.reached:
            _TURN.watch = self
            return
        if any(map(self._has_gradient, self._parameters())):
            self.reached = self.computed = True
        if not self.computed and self._since is not None and _TURN.watch is self:
            self.computed = _next_number() > self._since + 1
        self.go_on()

    def refuse_end(self, stepped: bool) -> None:
        """Raise WorkloadError if the worker has trained something else than what it steps, or has not `stepped`.

        Steps without a gradient are no training where they leave the weights as they were; a worker that has not computed any may be one
        without samples. A worker that resumes where another run had ended has steps, but has taken none itself.
        """
        self.look()
        if not self.computed or not self.watches:
            return
        taken = sum(watch.taken for watch in self.watches)
        if not stepped and not taken:
            kind = type(self.watches[0].optimizer).__name__
            raise WorkloadError(
                f"Gradients were computed after worker.attach, but step() of the attached {kind} was never called, so nothing was "
                f"exchanged: call it after backward(), and attach the model that is trained, no copy of it. {_OTHER_GRADIENTS}"
            )
        if taken and not self.reached and not any(watch.has_changed for watch in self.watches):
            raise WorkloadError(
                f"Gradients were computed, but no attached parameter had one at any of {taken} steps, so nothing was trained: give "
                "worker.attach the model whose loss is computed, and no copy of it, and call zero_grad() before backward() and not "
                f"between it and step(). {_OTHER_GRADIENTS}"
            )

    def _pass(self, parameters: Iterable[Tensor]) -> None:
        self._before |= {id(each): (each.grad, version(each.grad)) for each in parameters if each.grad is not None}

    def _parameters(self) -> Iterable[Tensor]:
        return (each for watch in self.watches for each in watch.parameters)

    def _has_gradient(self, parameter: Tensor) -> bool:
        if parameter.grad is None:
            return False
        grad, before = self._before.get(id(parameter), (None, 0))
        return parameter.grad is not grad or version(parameter.grad) != before


_OTHER_GRADIENTS = "Gradients that are not for training are computed before worker.attach or after worker.finish()."


def _next_number() -> int:
    """The number of a new backward pass in this process; torch numbers them consecutively."""
    found: list[int] = []
    with torch.inference_mode(False), torch.enable_grad():
        probe = torch.zeros((), device="cpu", requires_grad=True)
        probe.register_hook(lambda _: found.append(backward_pass()))  # type: ignore[no-untyped-call]
        probe.backward(torch.ones((), device="cpu"))  # type: ignore[no-untyped-call]
    return found[0]
