"""One worker's side of its local rule: its work before each local step, and after each exchange."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from torch import Tensor

from polyrhythm.core.kernel.events import Agreed
from polyrhythm.core.kernel.job import WorkerContext
from polyrhythm.core.kernel.port import Port
from polyrhythm.core.kernel.together import Start, together
from polyrhythm.core.protocols.local import LocallyStepped, LocalRule, MixingRule
from polyrhythm.core.protocols.responses import Response
from polyrhythm.core.protocols.topology import InitialState
from polyrhythm.core.strategy.companion import Companion
from polyrhythm.core.strategy.components import Components
from polyrhythm.core.strategy.gradients import Parameters
from polyrhythm.core.strategy.local_optimizer import LocalOptimizer
from polyrhythm.core.tensors import State
from polyrhythm.core.trees import StateTree
from polyrhythm.core.weights.state import ModelState


class LocalRuleOfPart:
    """Applies `rule` to the steps that `optimizer` takes on `parameters`; `memory` is its state. The weights are those of `held`.

    `beside` are the vectors that are mixed in addition to the weights, `vectors` all that were sent in the current exchange, and
    `responses` the responses of the additional ones.
    """

    def __init__(
        self, rule: LocalRule, parameters: Parameters, optimizer: LocalOptimizer, held: ModelState, beside: Sequence[Companion]
    ) -> None:
        self.traits = rule.traits
        self.hooks = rule.hooks
        self.parameters = parameters
        self.optimizer = optimizer
        self.held = held
        self.beside = beside
        self.memory: State = self.hooks.initial(parameters.layout)
        self.sent: Tensor | None = None
        self.vectors: tuple[Tensor, ...] = ()
        self.responses: list[Response] = []

    def establish(self, context: WorkerContext) -> None:
        """Start to exchange the vectors that are mixed in addition to the weights."""
        for each in self.beside:
            context.perform(each.channel.establish(InitialState(each.state, ""))).apply(each.state)

    def send(self) -> None:
        """Prepare for sending: keep the current weights, if the rule will need them, or replace them by the vectors that the rule sends."""
        if self.hooks.go_on is not None:
            self.sent = self.held.weights.clone()
        if self.hooks.mixing is not None:
            held = self.held
            self.vectors = self.hooks.mixing.send(LocallyStepped(held.weights, held.anchor, self.parameters.gradient), self.memory)
            for state, vector in zip((held, *(each.state for each in self.beside)), self.vectors, strict=True):
                state.weights.copy_(vector)

    def exchange(self, start: Start[Response], port: Port, rates: tuple[float, ...]) -> Start[Response]:
        """`start`, together with the exchanges of the vectors that are mixed in addition to the weights."""
        return partial(self._all, start, port, rates) if self.beside else start

    def correct_gradients(self) -> None:
        """Replace the gradient by the one that the rule corrects, if it corrects gradients."""
        correct = self.hooks.correct
        if correct is None:
            return
        if self.traits.componentwise and any(each.grad is not None and each.grad.is_sparse for each in self.parameters.parameters):
            values = Components(self.parameters.parameters)
            values.put(correct(values.flat.cpu(), self.held.context, self.memory))
        else:
            corrected = correct(self.parameters.gradient().cpu(), self.held.context, self.memory)
            self.parameters.put_gradient(corrected)

    def follow(self, apply: Callable[[], None], average: Callable[[], None], context: WorkerContext) -> None:
        """`apply` a response, and let the rule continue from the result; `average` puts the means of the optimizers' states in place."""
        hooks, held = self.hooks, self.held
        before = held.weights if hooks.settle is None and hooks.go_on is None else held.weights.clone()
        apply()
        if hooks.mixing is not None:
            self._take(hooks.mixing)
        if hooks.settle is not None:
            change = replace(held.context, update=lambda: held.weights - before)
            self.memory = hooks.settle(change, self.memory, self.optimizer)
            self._record(context)
        if self.traits.averages:
            average()
        if hooks.go_on is not None:  # the anchor stays: the next update counts from what was agreed on
            held.weights.copy_(hooks.go_on(held.weights, before, before if self.sent is None else self.sent))
            self.sent = None

    def end(self) -> None:
        """The weights that were agreed on are the result, even where a worker continues from others."""
        if self.hooks.go_on is not None:
            self.held.weights.copy_(self.held.anchor)

    def export(self) -> StateTree:
        return {"memory": self.memory, "sent": self.sent, "beside": [each.export() for each in self.beside]}

    def restore(self, state: StateTree) -> None:
        self.memory, self.sent = state["memory"], state["sent"]
        for each, exported in zip(self.beside, state["beside"], strict=True):
            each.restore(exported)

    def take_over(self, state: StateTree, own: bool) -> None:
        """Continue among other workers. The rule's state begins anew at all: duals and corrections have a sum over the workers of then."""
        self.sent = state["sent"] if own else None
        for each, exported in zip(self.beside, state["beside"], strict=True):
            each.take_over(exported, own)

    async def _all(self, start: Start[Response], port: Port, rates: tuple[float, ...]) -> Response:
        clock = self.held.clock
        starts: list[Start[Response]] = [start]
        starts += [partial(each.channel.exchange, each.state.weights.cpu(), clock, rates) for each in self.beside]
        response, *self.responses = await together(port, starts)
        return response

    def _take(self, mixing: MixingRule) -> None:
        """Take over the mixed vectors, and the weights that the rule makes of them."""
        for each, response in zip(self.beside, self.responses, strict=True):
            response.apply(each.state)
        mixed = [self.held.weights, *(each.state.weights for each in self.beside)]
        weights, self.memory = mixing.take(mixed, self.vectors, self.memory)
        self.held.adopt(weights)
        self.vectors, self.responses = (), []

    def _record(self, context: WorkerContext) -> None:
        if figures := self.hooks.figures(self.memory):
            context.record(Agreed(context.port.now(), context.port.name, self.held.clock, dict(figures)))
