"""The parameters of one exchange, of one type and on one device: they lie in one vector and are exchanged together.

A replica has one `Part` for each such group of parameters, and calls it at every step; its payload, inner exchanges, local rule and overlap
do the work.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from torch import Tensor, nn

from polyrhythm.core.kernel.events import Merged, Overwritten
from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.protocols.responses import Response
from polyrhythm.core.protocols.topology import InitialState
from polyrhythm.core.protocols.traits import Pattern
from polyrhythm.core.strategy.companion import companions
from polyrhythm.core.strategy.control_loop import ControlLoop
from polyrhythm.core.strategy.deferral.deferral import Deferral
from polyrhythm.core.strategy.deferral.overlap import Overlap
from polyrhythm.core.strategy.finite import refuse_infinite
from polyrhythm.core.strategy.gradients import Parameters
from polyrhythm.core.strategy.inner import Inner
from polyrhythm.core.strategy.local_optimizer import LocalOptimizer
from polyrhythm.core.strategy.local_rule import LocalRuleOfPart
from polyrhythm.core.strategy.part_seat import PartSeat
from polyrhythm.core.strategy.part_state import drained, exported, restore
from polyrhythm.core.strategy.payloads import PAYLOADS, PendingExchange
from polyrhythm.core.strategy.snapshots import new_snapshots
from polyrhythm.core.strategy.strategy_plan import PlannedExchange
from polyrhythm.core.strategy.watching.drift import end_alike
from polyrhythm.core.strategy.watching.written import HandWrites
from polyrhythm.core.trees import StateTree
from polyrhythm.core.weights.state import ModelState


class Part:
    """One worker's side of one exchange. `clock` counts the worker's steps."""

    def __init__(self, parameters: Parameters, optimizer: LocalOptimizer, planned: PlannedExchange, seat: PartSeat) -> None:
        self.parameters = parameters
        self.optimizer = optimizer
        self.planned = planned
        plan = planned.plan
        self.context, self.port, self.scope, self.workers = seat.context, seat.port, seat.scope, seat.workers
        self.ends_alike = planned.exchange.ends_alike
        self.clock = 0
        self.taken_rates: tuple[float, ...] = ()
        *inner, self.level = plan.levels(seat.port.name)
        self.agreement = self.level.agreement
        self._chooses = self.agreement.consistency.traits.chooses
        self.channel = self.level.connect(seat.port)
        self.inner = [Inner(level, parameters, seat.context, seat.port, self.check) for level in inner]
        self.payload = PAYLOADS[self.agreement.payload](self)
        self.control = ControlLoop(self.agreement.controller, self.level.group, seat.port.scoped("control/"), seat.context)
        context = ExchangeContext(self.level.group, self.port.rng("exchange"), controls=self.control)
        self.state = ModelState(
            parameters.flat, parameters.layout, self.agreement.merge, context, self.payload.optimize, optimizer.step_scaled
        )
        self.state.clip = optimizer.clipped
        for state in (self.state, *(inner.state for inner in self.inner)):
            state.rates = optimizer.rates
        beside = companions(self.level, seat.port, self.state)
        self.rule = LocalRuleOfPart(self.agreement.local, parameters, optimizer, self.state, beside)
        self.overlap: Overlap | None = None
        self.deferral: Deferral | None = None
        self.snapshots = new_snapshots(len(plan.result_actors()))
        self.writes = HandWrites(parameters, self.agreement, planned.exchange.topology.traits, seat.port.name)

    @property
    def pattern(self) -> Pattern:
        """The pattern in which workers communicate."""
        return self.level.pattern

    @property
    def states(self) -> list[ModelState]:
        """The weights of the exchange and of the group's inner ones, each with its anchor."""
        return [self.state, *(inner.state for inner in self.inner)]

    @property
    def shifts(self) -> bool:
        """True if each worker adds up by itself the changes of all others."""
        return self.pattern is Pattern.PEERS

    @property
    def steps_once(self) -> bool:
        """True if the optimizer itself takes one step for each of the worker's, inside its `optimizer.step()`."""
        waits = self.channel.offers.tensors is None and not self.planned.exchange.topology.traits.late
        return self.payload.steps_here and (waits or not self.agreement.payload.is_gradient)

    def look(self) -> None:
        """Keep a snapshot, if one is wanted, of the weights that the workers agreed on last: they may be about to change.

        While some parameters have taken the last step and others have not, the weights are no valid state: their next value is kept before
        the next step.
        """
        if self.deferral is None or not self.deferral.part_way:
            self.snapshots.look(self.port.now(), self.state.anchor)

    def establish(self) -> None:
        """Start with the weights of worker 0."""
        recipe = self.payload.recipe()
        self.payload.begin()
        for inner in self.inner:
            self.context.perform(inner.channel.establish(InitialState(inner.state, ""))).apply(inner.state)
        self.control.nbytes = self.state.weights.numel() * self.state.weights.element_size()
        self.context.perform(self.channel.establish(InitialState(self.state, recipe, self.control))).apply(self.state)
        self.rule.establish(self.context)
        self._follow_weights()
        self._rebase()
        self.writes.note()

    def count_from_here(self) -> None:
        """Make the current weights those on which all workers agree."""
        self.state.set_anchor_to_weights()
        self._rebase()

    def begin_overlap(self, model: nn.Module) -> None:
        """From now on exchange the gradients of `model` as backward() computes them, where the topology can."""
        if self.channel.offers.buckets is not None:
            self.overlap = Overlap(self.parameters, self.channel.offers.buckets, self.context, self.check_early)
        if self.channel.offers.tensors is not None:
            self.deferral = Deferral(model, self.channel.offers.tensors, self)

    @property
    def overlaps(self) -> bool:
        """True if gradients are exchanged from `backward()` on, and not in `optimizer.step()` alone."""
        return self.overlap is not None or self.deferral is not None

    def refuse_changes(self) -> None:
        """Raise an error for weights that were written in vain, or gradients that were changed after they were exchanged in backward()."""
        self.writes.take(self)
        if self.overlap is not None:
            self.overlap.arrivals.refuse_changes()
            self.overlap.begin_rest()
        if self.deferral is not None:
            self.deferral.arrivals.refuse_changes()
            self.deferral.begin_rest()

    def settle(self) -> None:
        """Take the steps that wait for the next forward pass: the state is then as if none had been deferred."""
        if self.deferral is not None:
            self.deferral.settle()

    def step(self) -> PendingExchange | None:
        """Count one computed step of this worker, and return its exchange: None where none follows this step."""
        self.clock += 1
        self.state.clock = self.clock
        self.taken_rates = self.optimizer.rates()
        return self.payload.step()

    def check(self, values: Sequence[Tensor]) -> None:
        """Raise DivergedError if one of `values`, which leave the worker, is not finite."""
        refuse_infinite(values, self.agreement.payload, self.port.name, self.clock)

    @property
    def awaits(self) -> bool:
        """True if part of the last step is still to come, so that the library will write weights before the next."""
        return self.deferral is not None and bool(self.deferral.outstanding)

    def average_gradients(self) -> None:
        """Replace the worker's gradient by the mean of its group, where the group has an inner exchange."""
        for inner in self.inner:
            inner.average_gradients(self.clock, self.payload.rates())

    def correct_gradients(self) -> None:
        """Replace the worker's gradient by the one that the local rule corrects, if it corrects gradients."""
        self.rule.correct_gradients()

    def average_updates(self) -> None:
        """Take over the weights on which the worker's group agrees after a local step, where the group has an inner exchange."""
        for inner in self.inner:
            inner.average_updates(self.clock, self.payload.rates())

    def exchange_gradient(self) -> PendingExchange | None:
        """The exchange of the gradients that the parameters have, in the way that needs the fewest copies; None where it is under way."""
        if self.defers():
            return None
        if self.overlap is not None:
            return PendingExchange(partial(self.overlap.buckets.conclude, self.payload.rates()), self._apply)
        if self.channel.offers.in_place is None:
            return self.exchange(self.parameters.gradient())
        sends = self.channel.offers.in_place.sends
        parts = self.parameters.parts() if sends else self.parameters.present()
        self.check(parts)
        return PendingExchange(partial(self.channel.offers.in_place.exchange_parts, parts), self._apply_in_place if sends else self._apply)

    def defers(self) -> bool:
        """True if this step's exchange is under way tensor by tensor, and forward passes wait for its results."""
        return self.deferral is not None and self.deferral.step()

    def exchange(self, value: Tensor) -> PendingExchange:
        """The exchange of `value` (numel,). Raises DivergedError if it is not finite."""
        self.rule.send()  # the rule may replace the weights by the vector that it sends
        self.check([value])
        weighted, rates = (value if self.level.weight == 1 else value * self.level.weight), self.payload.rates()
        start = partial(self.channel.exchange, weighted.cpu(), self.clock, rates)
        return PendingExchange(self.rule.exchange(start, self.port, rates), self._conclude)

    @property
    def rests(self) -> bool:
        """True if the worker skips its next step."""
        return self._chooses and not self.agreement.consistency.takes_part(self.clock + 1, self.level.group.rank, self.level.group)

    def pass_over(self) -> PendingExchange | None:
        """Count a step that is skipped, and return the response to collect before the next one that is taken."""
        self.clock += 1
        self.state.clock = self.clock
        return self.collect()

    @property
    def awaits_response(self) -> bool:
        """True if an update was sent whose response has not been collected."""
        return self.channel.offers.late is not None and self.channel.offers.late.under_way

    def collect(self) -> PendingExchange | None:
        """The response to an update that was sent some steps ago, if it is due; None where there is none."""
        late = self.channel.offers.late
        return PendingExchange(late.collect, self._conclude) if late is not None and late.due(self.clock) else None

    def finish(self) -> None:
        """End the exchange: afterwards the parameters are the final weights."""
        self.writes.refuse_end(self.clock)
        if self.deferral is not None:
            self.deferral.close()
        if self.overlap is not None:
            self.overlap.arrivals.close()
            if self.overlap.under_way:  # a backward() without a step: the others have started its exchange too, and the response is dropped
                self.overlap.begin_rest()
                self.context.perform(self.overlap.buckets.conclude(self.payload.rates()))
        pending = self.payload.finish()
        if pending is not None:
            pending.conclude(self.context.perform(pending.start()))
        if self.channel.offers.late is not None and self.channel.offers.late.under_way:
            self._conclude(self.context.perform(self.channel.offers.late.collect()))
        self.rule.end()
        for inner in self.inner:
            self.context.perform(inner.channel.finish()).apply(inner.state)
        self._apply(self.context.perform(self.channel.finish()))
        self._follow_weights()
        if (writes := self.channel.offers.writes) is not None:
            self.context.record(Overwritten(self.port.now(), self.port.name, writes.written, writes.lost))

    def end_alike(self) -> None:
        """After `finish`, make final weights that must be equal equal bit for bit (`drift.end_alike`)."""
        if self.ends_alike:
            end_alike(self.context, self.workers, self.parameters.layout, self.state.weights, self.clock)

    def drain(self, step: int) -> str:
        """Drain the channel of every exchange of this part (`Channel.drain`), with no step outstanding. Returns the first error, or ""."""
        self.settle()
        return drained(self, step)

    def export(self) -> StateTree:
        return exported(self)

    def restore(self, state: StateTree) -> None:
        restore(self, state)

    def restore_weights(self, state: StateTree) -> None:
        """Restore the weights alone, if the training function has written others in the meantime."""
        if self.writes.watched.changed():
            self.state.weights.copy_(state["model"]["weights"])
            self.writes.note(resumed=True)

    def _apply_in_place(self, response: Response) -> None:
        self.parameters.drop_nothing()
        self._apply(response)

    def _conclude(self, response: Response) -> None:
        if self.awaits_response and not response.contributions:
            return  # the update was sent; its response will be collected
        self.rule.follow(partial(self._apply, response), self.channel.offers.collective, self.context)
        self._rebase()

    def _follow_weights(self) -> None:
        """Move the parameters where a response has placed the weights in other memory."""
        if self.state.weights is not self.parameters.flat:
            self.parameters.lie_in(self.state.weights)

    def _rebase(self) -> None:
        for inner in self.inner:
            inner.rebase()

    def _apply(self, response: Response) -> None:
        port, late = self.port, [each.staleness for each in response.contributions]
        self.look()
        began = port.now()
        response.apply(self.state)
        if len(late) > 1:  # one is the worker's own, or a sum that was made on the way
            self.context.charge_merge(len(late) - 1)
            self.context.record(Merged(port.now(), port.name, self.state.version, late, port.now() - began))

    def check_early(self, value: Tensor) -> None:
        """Raise DivergedError if `value`, of the step that `backward()` prepares, is not finite."""
        refuse_infinite([value], self.agreement.payload, self.port.name, self.clock + 1)
