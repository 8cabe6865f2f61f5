"""A worker's own side of one exchange: its parameters, the steps that it takes on them, and the exchanges inside its group.

A `Part` makes one; payloads, deferred steps and constraints work on it, and none of them knows the part.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import count

import torch
from torch import Tensor

from polyrhythm.core.protocols.capability import Capability
from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.protocols.topology import InitialState
from polyrhythm.core.protocols.traits import Payload
from polyrhythm.core.strategy.companion import companions
from polyrhythm.core.strategy.control_loop import ControlLoop
from polyrhythm.core.strategy.gradients import Parameters
from polyrhythm.core.strategy.inner import Inner
from polyrhythm.core.strategy.local_optimizer import LocalOptimizer
from polyrhythm.core.strategy.local_rule import LocalRuleOfPart
from polyrhythm.core.strategy.part_seat import PartSeat
from polyrhythm.core.strategy.snapshots import new_snapshots
from polyrhythm.core.strategy.strategy_plan import PlannedExchange
from polyrhythm.core.strategy.watching.written import HandWrites
from polyrhythm.core.trees import StateTree
from polyrhythm.core.weights.state import ModelState
from polyrhythm.errors import diverged

Rates = Callable[[], tuple[float, ...]]
"""Gives the learning rates that go with what is exchanged."""


class LocalPart:
    """The `parameters` of one exchange at one worker, with their `optimizer`.

    `state` has the weights and the number of steps; `inner` are the exchanges inside the worker's group, and `rule` is the local rule.
    `taken_rates` are the learning rates of the step that was taken last, or is being taken.
    """

    def __init__(self, parameters: Parameters, optimizer: LocalOptimizer, planned: PlannedExchange, seat: PartSeat) -> None:
        self.parameters = parameters
        self.optimizer = optimizer
        self.context, self.port = seat.context, seat.port
        *inner, self.level = planned.plan.levels(seat.port.name)
        self.agreement = self.level.agreement
        self.taken_rates: tuple[float, ...] = ()
        self.agreed: Tensor | None = None
        self.weight = 1.0
        """The weight of the batch that was drawn last, in a mean over workers whose batches have unequal sizes."""
        self.control = ControlLoop(self.agreement.controller, self.level.group, seat.port.scoped("control/"), seat.context)
        context = ExchangeContext(self.level.group, seat.port.rng("exchange"), controls=self.control)
        optimize = optimizer.step_on if self.agreement.payload.is_gradient else None
        self.state = ModelState(parameters.flat, parameters.layout, self.agreement.merge, context, optimize, optimizer.step_scaled)
        self.state.clip = optimizer.clipped
        self.inner = [Inner(level, parameters, seat.context, seat.port, self.check) for level in inner]
        for state in self.states:
            state.rates = optimizer.rates
        self.rule = LocalRuleOfPart(self.agreement.local, parameters, optimizer, self.state, companions(self.level, seat.port, self.state))
        self.snapshots = new_snapshots(len(planned.plan.result_actors()))
        self.writes = HandWrites(parameters, self.agreement, planned.exchange.topology.traits, seat.port.name)

    @property
    def clock(self) -> int:
        """The number of steps that this worker has taken, or is taking."""
        return self.state.clock

    @property
    def provides(self) -> frozenset[Capability]:
        """The capabilities of the topology."""
        return self.level.provides

    @property
    def acts_alike(self) -> bool:
        """True if all workers complete an exchange with the same result: who is interrupted in it continues from another's state."""
        provides, payload = self.provides, self.agreement.payload
        return Capability.ONE_SIDED not in provides and (Capability.COLLECTIVES in provides or payload is not Payload.WEIGHTS)

    @property
    def keeps_weights(self) -> bool:
        """True if each worker has weights of its own, which it mixes with others' at the same steps as they."""
        return Capability.ONE_SIDED not in self.provides and not self.acts_alike

    @property
    def keeps_pace(self) -> bool:
        """True if all workers take equally many steps: none is ahead of another by more than one, but for those that are not drawn."""
        in_lockstep = not self.agreement.conditions.may_proceed(1, 0) and not self.agreement.consistency.traits.chooses
        return self.keeps_weights or self.acts_alike or in_lockstep

    @property
    def states(self) -> list[ModelState]:
        """The weights of the exchange and of the group's inner ones, each with its anchor."""
        return [self.state, *(inner.state for inner in self.inner)]

    @property
    def shifts(self) -> bool:
        """True if each worker adds up by itself the changes of all others."""
        return Capability.EVERY_PEER in self.provides

    def succeed(self, before: LocalPart) -> None:
        """Go on where the part of these parameters among earlier members was, with a step that may be repeated."""
        self.state.clock, self.weight = before.clock, before.weight
        if before.agreement.payload is Payload.UPDATE:
            self.agreed = before.state.anchor

    def begin(self) -> None:
        """Establish the exchanges inside the group. Workers that begin later have in common with this one what was agreed on among
        earlier members, and not what it has done since."""
        for inner in self.inner:
            self.context.perform(inner.channel.establish(InitialState(inner.state, ""))).apply(inner.state)
        if self.agreed is None:
            self.state.set_anchor_to_weights()
        else:
            self.state.anchor.copy_(self.agreed)

    def check(self, values: Sequence[Tensor], early: int = 0) -> None:
        """Raise DivergedError if one of `values`, which leave the worker, is not finite; `early` is 1 if the step is still to come."""
        if values and not math.isfinite((values[0] if len(values) == 1 else torch.stack([*map(torch.sum, values)])).sum().item()):
            raise diverged(f"The {self.agreement.payload.value} of {self.port.name} are not finite at step {self.clock + early}")

    def check_early(self, value: Tensor) -> None:
        """Raise DivergedError if `value`, of the step that `backward()` prepares, is not finite."""
        self.check([value], 1)

    def look(self) -> None:
        """Keep a snapshot, if one is wanted, of the weights that the workers agreed on last: they are about to change."""
        self.snapshots.look(self.port.now(), self.state.anchor)

    def average_gradients(self, rates: Rates) -> None:
        """Replace the worker's gradient by the mean of its group, where the group has an inner exchange."""
        if self.context.crew.changes:
            self.optimizer.keep_gradient(self.state.clock)
        for inner in self.inner:
            inner.average_gradients(self.state.clock, rates())

    def step(self, rates: Rates) -> None:
        """Take a step of the worker's own optimizer, with the exchanges inside its group before and after it."""
        if self.optimizer.stepped_at != self.state.clock:  # else the exchange after it was interrupted
            if self.inner:
                self.average_gradients(rates)
            self.rule.correct_gradients()
            self.optimizer.clip()
            self.optimizer.step()
            self.optimizer.stepped_at = self.state.clock
        for inner in self.inner:
            inner.average_updates(self.state.clock, rates())

    @property
    def exchanges(self) -> bool:
        """True if the consistency has an exchange after the step that was taken last."""
        return self.agreement.conditions.exchanges(self.state)

    def next_exchange(self, clock: int) -> int:
        """The first step after `clock` that has an exchange."""
        exchanges, context = self.agreement.conditions.exchanges, self.state.context
        return next(each for each in count(clock + 1) if exchanges(replace(context, clock=each)))

    def take_writes(self) -> None:
        """Handle writes of the training function since the last step: where training begins with them, updates count from them."""
        if self.writes.take(self.state.clock):
            self.state.set_anchor_to_weights()
            self.rebase()

    def rebase(self) -> None:
        """Count the updates inside the group from the current weights, which an exchange has changed."""
        for inner in self.inner:
            inner.rebase()

    @property
    def shapes(self) -> dict[str, list[int]]:
        """The shapes of the parameters, by name."""
        layout = self.parameters.layout
        return {name: list(shape) for name, shape in zip(layout.names, layout.shapes, strict=True)}

    def export(self) -> StateTree:
        """The state of the worker's own side for a checkpoint."""
        return {
            "layout": self.shapes,
            "clock": self.clock,
            "rates": list(self.taken_rates),
            "model": self.state.export(),
            "inner": [each.export() for each in self.inner],
            "local": self.rule.export(),
            "control": self.control.export(),
        }

    def restore(self, state: StateTree) -> None:
        """Restore an exported state, after the exchange was established."""
        self.taken_rates = tuple(state["rates"])
        self.rule.restore(state["local"])
        self.control.restore(state["control"])
        self.state.restore(state["model"])
        for inner, exported in zip(self.inner, state["inner"], strict=True):
            inner.restore(exported)

    def take_over(self, state: StateTree, own: bool) -> None:
        """Take over a state that was exported among other workers, this worker's `own` or that of one that it joins."""
        self.taken_rates = tuple(state["rates"])
        self.rule.take_over(state["local"], own)
        self.control.take_over(state["control"], own)
        self.state.take_over(state["model"], own)
        if not own and self.agreement.payload is Payload.UPDATE:
            self.state.weights.copy_(self.state.anchor)  # its donor sends what it has done since
        for inner, exported in zip(self.inner, state["inner"], strict=True):
            inner.take_over(exported, own)

    def inherit(self, state: StateTree) -> None:
        """Add to the next update the steps that a worker that has left took since its last exchange.

        Only where they are an update by themselves, and not where each worker continues from weights other than those agreed on.
        """
        model = state["model"]
        if self.agreement.payload is Payload.UPDATE and self.rule.hooks.go_on is None and model["anchor"] is not None:
            self.state.weights += (model["weights"] - model["anchor"]).to(self.state.weights.device)

    def restore_weights(self, state: StateTree) -> None:
        """Restore the weights alone, if the training function has written others in the meantime."""
        if self.writes.watched.compare()[1]:
            self.state.weights.copy_(state["model"]["weights"])
            self.writes.note(resumed=True)
