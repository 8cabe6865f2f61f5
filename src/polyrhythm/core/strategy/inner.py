"""The exchange inside a worker's group, before the group exchanges with other groups as one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch import Tensor

from polyrhythm.core.kernel.job import WorkerContext
from polyrhythm.core.kernel.port import Port
from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.strategy.gradients import Parameters
from polyrhythm.core.strategy.plan import Level
from polyrhythm.core.trees import StateTree
from polyrhythm.core.weights.state import ModelState


class Inner:
    """One worker's side of its group's own exchange: of gradients before each step, or of updates after some.

    `check` is called with the values that leave the worker.
    """

    def __init__(
        self,
        level: Level,
        parameters: Parameters,
        context: WorkerContext,
        port: Port,
        check: Callable[[Sequence[Tensor]], None],
    ) -> None:
        self.level = level
        self.channel = level.connect(port)
        self.parameters = parameters
        self.context = context
        self.check = check
        self.averages_gradients = level.agreement.payload.is_gradient
        merging = ExchangeContext(level.group, port.rng("inner exchange"))
        optimize = self._put if self.averages_gradients else None
        self.state = ModelState(parameters.flat, parameters.layout, level.agreement.merge, merging, optimize)
        if not self.averages_gradients:
            self.state.set_anchor()

    def average_gradients(self, clock: int, rates: tuple[float, ...]) -> None:
        """Replace the worker's gradient by the group's mean, if gradients are the payload."""
        if not self.averages_gradients:
            return
        self.state.clock = clock
        channel = self.channel
        if channel.offers.in_place is not None:
            parts = self.parameters.parts()
            self.check(parts)
            self.context.perform(
                channel.offers.in_place.exchange_parts(parts)
            )  # the response would step, which is left to the outer exchange
            self.parameters.drop_nothing()
        else:
            gradient = self.parameters.gradient()
            self.check([gradient])
            self.context.perform(channel.exchange(gradient.cpu(), clock, rates)).apply(self.state)

    def average_updates(self, clock: int, rates: tuple[float, ...]) -> None:
        """Exchange the updates since the group last agreed, if updates are the payload and it is time."""
        self.state.clock = clock
        if not self.averages_gradients and self.level.agreement.conditions.exchanges(self.state):
            moved = self.state.moved()
            self.check([moved])
            self.context.perform(self.channel.exchange(moved.cpu(), clock, rates)).apply(self.state)

    def export(self) -> StateTree:
        """The state of the group's exchange; the weights are the part's."""
        return {"state": {**self.state.export(), "weights": None}, "channel": self.channel.export()}

    def restore(self, state: StateTree) -> None:
        """Take over what was exported, after the part's weights."""
        self.state.restore({**state["state"], "weights": self.state.weights})
        self.channel.restore(state["channel"])

    def take_over(self, state: StateTree, own: bool) -> None:
        """Take over what was exported in another group, after the part's weights."""
        self.state.take_over({**state["state"], "weights": self.state.weights}, own)
        self.channel.take_over(state["channel"], own)

    def rebase(self) -> None:
        """Count the next update from here: the exchange with other groups has changed the weights."""
        if not self.averages_gradients:
            self.state.set_anchor()

    def _put(self, gradient: Tensor, rates: tuple[float, ...]) -> None:
        self.parameters.put_gradient(gradient)
