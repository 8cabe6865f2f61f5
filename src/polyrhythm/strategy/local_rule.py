"""What one worker does by its rule for local steps: before each of them, and after each exchange."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from torch import Tensor

from polyrhythm.kernel.events import Agreed
from polyrhythm.kernel.job import WorkerContext
from polyrhythm.model.state import ModelState
from polyrhythm.pieces.local import LocalRule
from polyrhythm.pieces.requests import CollectiveOperations
from polyrhythm.strategy.averaged_moments import average_moments
from polyrhythm.strategy.gradients import Parameters
from polyrhythm.strategy.local_optimizer import LocalOptimizer
from polyrhythm.tensors import State


class LocalRuleOfPart:
    """`rule` for the steps that `optimizer` takes on `parameters`; `memory` is its state. The weights are those of `held`."""

    def __init__(self, rule: LocalRule, parameters: Parameters, optimizer: LocalOptimizer, held: ModelState) -> None:
        self.rule = rule
        self.parameters = parameters
        self.optimizer = optimizer
        self.held = held
        self.memory: State = rule.initial(parameters.layout)

    def correct_gradients(self) -> None:
        """Put what the rule makes of the gradient in its place, if it makes something else of it."""
        if self.rule.traits.corrects:
            corrected = self.rule.correct(self.parameters.gradient().cpu(), self.held.context, self.memory)
            self.parameters.put_gradient(corrected)

    def follow(self, apply: Callable[[], None], collective: CollectiveOperations | None, context: WorkerContext) -> None:
        """`apply` what an exchange has brought, and do what the rule has for it; `collective` is among the workers of the exchange."""
        traits, held = self.rule.traits, self.held
        before = held.weights.clone() if traits.settles or traits.keeps > 0 else held.weights
        apply()
        if traits.settles:
            self._settle(before, context)
        if traits.averages and collective is not None:
            average_moments(self.optimizer, collective, context)
        if traits.keeps > 0:  # the anchor stays: the next update counts from what was agreed on
            held.weights.lerp_(before, traits.keeps)

    def end(self) -> None:
        """What was agreed on is the result, whatever of its own a worker has kept."""
        if self.rule.traits.keeps > 0:
            self.held.weights.copy_(self.held.anchor)

    def _settle(self, before: Tensor, context: WorkerContext) -> None:
        weights = self.held.weights
        self.memory = self.rule.settle(replace(self.held.context, update=lambda: weights - before), self.memory, self.optimizer)
        if figures := self.rule.figures(self.memory):
            context.record(Agreed(context.port.now(), context.port.name, self.held.clock, dict(figures)))
