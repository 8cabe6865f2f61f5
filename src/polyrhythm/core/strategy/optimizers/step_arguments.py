"""The arguments of `optimizer.step()`: a closure at most from the user, and none from a strategy."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from polyrhythm.core.settings import shown
from polyrhythm.core.strategy.optimizers.needs_closure import closure_use, step_parameters
from polyrhythm.core.weights.wrapped_optimizer import advice
from polyrhythm.errors import CompositionError, PolyrhythmError, WorkloadError

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class StepArguments:
    """The arguments of the step() of an attached `optimizer`, which is no longer the one of its class."""

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        self.kind = type(optimizer).__name__
        self.advice = advice(optimizer)
        parameters = step_parameters(optimizer)
        self.defaults = {each.name: each.default for each in parameters if each.default is not each.empty}
        self.names = [each.name for each in parameters if each.kind in _POSITIONAL]
        self.often = closure_use(optimizer).often

    def closure(self, given: Sequence[Any], options: Mapping[str, Any]) -> Callable[[], Any] | None:
        """The closure among the arguments, to be evaluated once. Raises an error for other arguments, and for repeated evaluations."""
        named = {**dict(zip(self._order(len(given)), given, strict=True)), **options}
        first = self.names[0] if self.names and callable(named.get(self.names[0])) else "closure"
        closure = named.pop(first, None)
        for name, value in named.items():
            if value is not None and value is not self.defaults.get(name, inspect.Parameter.empty):
                raise self._refused(f"{name}={shown(value)}")
            if name not in self.names and name not in self.defaults:
                raise self._refused(f"{name}={shown(value)}")
        if closure is None:
            return None
        if not callable(closure):
            raise self._refused(shown(closure))
        if self.often:
            raise CompositionError(
                f"{self.kind} evaluates the closure that it is given several times per step, and under a strategy step() evaluates it "
                f"once: call loss.backward(), and then step() without a closure, or use one that needs one evaluation.{self.advice}"
            )
        found: Callable[[], Any] = closure
        return found

    def _order(self, count: int) -> list[str]:
        """The names of so many positional arguments: the first is the closure, whatever the class calls it."""
        return ["closure", *self.names[1:], *(f"argument {place + 1}" for place in range(max(1, len(self.names)), count))][:count]

    def _refused(self, what: str) -> WorkloadError:
        return WorkloadError(
            f"step() of the attached {self.kind} was given {what}, and takes a closure or nothing: it is the strategy's, which steps on "
            "the gradients that the parameters have. Set options in the optimizer's groups, and gradients as each parameter's grad."
        )


def without_arguments(optimizer: torch.optim.Optimizer, step: Callable[[], Any]) -> Callable[[], Any]:
    """`step`, which raises CompositionError in place of an error of an optimizer whose step needs arguments and gets none."""
    kind, parameters = type(optimizer).__name__, step_parameters(optimizer)
    if type(optimizer).__module__.startswith("torch.optim") or not parameters:
        return step

    def take() -> Any:
        try:
            return step()
        except (PolyrhythmError, torch.OutOfMemoryError):
            raise
        except Exception as problem:
            raise CompositionError(
                f"step() of the attached {kind}, called without {parameters[0].name}, raised {type(problem).__name__}: {problem}. A "
                f"strategy calls it with no argument, on the gradients that the parameters have: use an optimizer that can step so."
                + advice(optimizer)
            ) from problem

    return take
