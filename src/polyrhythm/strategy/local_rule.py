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
from polyrhythm.trees import StateTree


class LocalRuleOfPart:
    """`rule` for the steps that `optimizer` takes on `parameters`; `memory` is its state. The weights are those of `held`."""

    def __init__(self, rule: LocalRule, parameters: Parameters, optimizer: LocalOptimizer, held: ModelState) -> None:
        self.rule = rule
        self.parameters = parameters
        self.optimizer = optimizer
        self.held = held
        self.memory: State = rule.initial(parameters.layout)
        self.sent: Tensor | None = None

    def send(self) -> None:
        """An update is about to be sent: keep the weights of now, if the rule will want them."""
        if self.rule.traits.goes_on:
            self.sent = self.held.weights.clone()

    def correct_gradients(self) -> None:
        """Put what the rule makes of the gradient in its place, if it makes something else of it."""
        if self.rule.traits.corrects:
            corrected = self.rule.correct(self.parameters.gradient().cpu(), self.held.context, self.memory)
            self.parameters.put_gradient(corrected)

    def follow(self, apply: Callable[[], None], collective: CollectiveOperations | None, context: WorkerContext) -> None:
        """`apply` what an exchange has brought, and do what the rule has for it; `collective` is among the workers of the exchange."""
        traits, held = self.rule.traits, self.held
        before = held.weights.clone() if traits.settles or traits.goes_on else held.weights
        apply()
        if traits.settles:
            self._settle(before, context)
        if traits.averages and collective is not None:
            average_moments(self.optimizer, collective, context)
        if traits.goes_on:  # the anchor stays: the next update counts from what was agreed on
            held.weights.copy_(self.rule.go_on(held.weights, before, before if self.sent is None else self.sent))
            self.sent = None

    def end(self) -> None:
        """What was agreed on is the result, wherever a worker goes on from."""
        if self.rule.traits.goes_on:
            self.held.weights.copy_(self.held.anchor)

    def export(self) -> StateTree:
        """As `pieces.state.Stateful`."""
        return {"memory": self.memory, "sent": self.sent}

    def restore(self, state: StateTree) -> None:
        """As `pieces.state.Stateful`."""
        self.memory, self.sent = state["memory"], state["sent"]

    def _settle(self, before: Tensor, context: WorkerContext) -> None:
        weights = self.held.weights
        self.memory = self.rule.settle(replace(self.held.context, update=lambda: weights - before), self.memory, self.optimizer)
        if figures := self.rule.figures(self.memory):
            context.record(Agreed(context.port.now(), context.port.name, self.held.clock, dict(figures)))
