"""The parameters of one exchange, of one type and on one device: they lie in one vector and are exchanged together.

A replica has one `Part` for each such group of parameters, and calls it at every step; its payload does the worker's own work, and the part
exchanges the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from torch import Tensor, nn

from polyrhythm.core.kernel.events import Merged, Overwritten
from polyrhythm.core.protocols.common_state import Donor
from polyrhythm.core.protocols.responses import Response
from polyrhythm.core.protocols.topology import Channel, InitialState
from polyrhythm.core.strategy.averaged_moments import MomentsExchange
from polyrhythm.core.strategy.deferral.deferral import Deferral
from polyrhythm.core.strategy.deferral.overlap import Overlap
from polyrhythm.core.strategy.gradients import Parameters
from polyrhythm.core.strategy.local_optimizer import LocalOptimizer
from polyrhythm.core.strategy.local_part import LocalPart
from polyrhythm.core.strategy.other_model import refuse_other_model
from polyrhythm.core.strategy.part_seat import PartSeat
from polyrhythm.core.strategy.payloads import PAYLOADS
from polyrhythm.core.strategy.pending_exchange import PendingExchange
from polyrhythm.core.strategy.residuals import inherit, residuals_left, send_again, waiting_in
from polyrhythm.core.strategy.strategy_plan import PlannedExchange
from polyrhythm.core.strategy.watching.drift import end_alike
from polyrhythm.core.trees import StateTree


class Part:
    """One worker's side of one exchange: `local` is what it does by itself, and `channel` connects it with the others."""

    def __init__(self, parameters: Parameters, optimizer: LocalOptimizer, planned: PlannedExchange, seat: PartSeat) -> None:
        self.planned = planned
        self.context, self.port, self.scope, self.workers = seat.context, seat.port, seat.scope, seat.workers
        self.ends_alike = planned.exchange.ends_alike
        self.local = LocalPart(parameters, optimizer, planned, seat)
        self.agreement = self.local.agreement
        self.sends_gradients = self.agreement.payload.is_gradient
        self.chooses = self.agreement.consistency.traits.chooses
        self.channel = self.local.level.connect(seat.port)
        self.moments = MomentsExchange(self.channel, optimizer, seat.context)
        self.payload = PAYLOADS[self.agreement.payload](self.local)
        self.overlap: Overlap | None = None
        self.deferral: Deferral | None = None
        self.alone_until = -1
        """In a crew that has changed, the step up to which it exchanges nothing; where workers are drawn, all take part until then."""

    @property
    def steps_once(self) -> bool:
        """True if the optimizer itself takes one step for each of the worker's, inside its `optimizer.step()`."""
        waits = self.channel.offers.tensors is None and not self.planned.exchange.topology.traits.late
        return self.payload.steps_here and (waits or not self.sends_gradients)

    @property
    def overlaps(self) -> bool:
        """True if gradients are exchanged from `backward()` on, and not in `optimizer.step()` alone."""
        return self.overlap is not None or self.deferral is not None

    @property
    def awaits(self) -> bool:
        """True if part of the last step is still to come, so that the library will write weights before the next."""
        return self.deferral is not None and bool(self.deferral.outstanding)

    @property
    def awaits_response(self) -> bool:
        """True if an update was sent whose response has not been collected."""
        return self.channel.offers.late is not None and self.channel.offers.late.under_way

    @property
    def rests(self) -> bool:
        """True if the worker skips its next step."""
        group = self.local.level.group
        return (
            self.chooses
            and self.local.clock > self.alone_until
            and not self.agreement.conditions.takes_part(self.local.clock + 1, group.rank, group)
        )

    def establish(self) -> None:
        """Start with the weights of worker 0."""
        local, recipe = self.local, self.payload.recipe()
        self.payload.begin()
        local.begin()
        local.control.nbytes = local.state.weights.numel() * local.state.weights.element_size()
        self.context.perform(self.channel.establish(InitialState(local.state, recipe, local.control))).apply(local.state)
        local.rule.establish(self.context)
        self._follow_weights()
        local.rebase()
        local.writes.note()

    def begin_overlap(self, model: nn.Module) -> None:
        """From now on exchange the gradients of `model` as backward() computes them, where the topology can."""
        offers, local = self.channel.offers, self.local
        if offers.buckets is not None:
            self.overlap = Overlap(local.parameters, offers.buckets, self.context, local.check_early)
            self.overlap.weight = lambda: local.weight
        if offers.tensors is not None and not self.context.crew.changes:  # the forward pass is the user's: nothing is repeated in it
            self.deferral = Deferral(model, offers.tensors, local)

    def refuse_changes(self) -> None:
        """Raise an error for weights that were written in vain, or gradients that were changed after they were exchanged in backward()."""
        self.local.take_writes()
        for early in (self.overlap, self.deferral):
            if early is not None:
                early.arrivals.refuse_changes()
                early.begin_rest()

    def step(self) -> PendingExchange | None:
        """Take one computed step of this worker, and return its exchange: None where none follows, or it is under way already."""
        local = self.local
        local.state.clock += 1
        local.taken_rates = local.optimizer.rates()
        if self.local.weight != 1 and self.sends_gradients and self.overlap is None:
            self.local.optimizer.weigh(local.clock, self.local.weight)
        if self.deferral is not None and self.deferral.step():
            return None  # values of this step are under way; traits leave deferral without inner exchanges
        if not self.context.counted(self.payload.step):
            return self.collect()
        if local.state.clock <= self.alone_until:
            return None
        if self.overlap is not None:
            return PendingExchange(partial(self.overlap.buckets.conclude, self.payload.rates()), self._apply, Part.repeat)
        return self._exchange()

    def pass_over(self) -> PendingExchange | None:
        """Count a step that is skipped, and return the response to collect before the next one that is taken."""
        self.local.state.clock += 1
        return self.collect()

    def collect(self) -> PendingExchange | None:
        """The response to an update that was sent some steps ago, if it is due; None where there is none."""
        late = self.channel.offers.late
        due = late is not None and late.due(self.local.state.clock)
        return PendingExchange(late.collect, self._conclude, Part.collect) if late is not None and due else None

    def repeat(self) -> PendingExchange | None:
        """The exchange of the step that was taken last, once more: in another view, from the values that are still there."""
        if self.local.clock <= self.alone_until:
            return self.collect() if self.chooses else None
        if self.overlap is not None:
            self.overlap.begin_rest()
            return PendingExchange(partial(self.overlap.buckets.conclude, self.payload.rates()), self._apply, Part.repeat)
        return self._exchange()

    def settle(self) -> None:
        """Take the steps that wait for the next forward pass: the state is then as if none had been deferred."""
        if self.deferral is not None:
            self.deferral.settle()

    def finish(self) -> None:
        """End the exchange: afterwards the parameters are the final weights."""
        local = self.local
        local.writes.refuse_end(local.clock)
        if self.deferral is not None:
            self.deferral.close()
        if self.overlap is not None:
            self.overlap.arrivals.close()
            if self.overlap.under_way:  # a backward() without a step: the others have started its exchange too, and the response is dropped
                self.overlap.begin_rest()
                self.context.perform(self.overlap.buckets.conclude(self.payload.rates()))
        rest = self.payload.rest()
        if rest is not None and not self.awaits_response:  # where one is awaited, replicas would count the rest differently
            pending = self._send(rest)
            pending.conclude(self.context.perform(pending.start()))
        if self.channel.offers.late is not None and self.channel.offers.late.under_way:
            self._conclude(self.context.perform(self.channel.offers.late.collect()))
        local.rule.end()
        for inner in local.inner:
            self.context.perform(inner.channel.finish()).apply(inner.state)
        self._apply(self.context.perform(self.channel.finish()))
        self._follow_weights()
        if (writes := self.channel.offers.writes) is not None:
            self.context.record(Overwritten(self.port.now(), self.port.name, writes.written, writes.lost))

    def end_alike(self) -> None:
        """After `finish`, make final weights that must be equal equal bit for bit, by rounds to which all come equally often."""
        if self.ends_alike and self.planned.part is None:  # else `EqualReplicas` compares them
            local = self.local
            end_alike(self.context, self.workers, local.parameters.layout, local.state.weights, local.clock)

    def drain(self, step: int) -> str:
        """Drain the channel of every exchange of this part (`Channel.drain`), with no step outstanding. Returns the first error, or ""."""
        self.settle()
        problems = [self.context.perform(channel.drain(step)) for channel in self.channels]
        return next(filter(None, problems), "")

    @property
    def channels(self) -> list[Channel]:
        """The channels of every exchange of this part: those inside the group, those of the local rule, and its own."""
        local = self.local
        return [*(inner.channel for inner in local.inner), *(each.channel for each in local.rule.beside), self.channel]

    def close(self) -> None:
        """Exchange no more; another part has the parameters."""
        if self.deferral is not None:
            self.deferral.close()
        if self.overlap is not None:
            self.overlap.arrivals.close()

    def export(self) -> StateTree:
        return {**self.local.export(), "channel": self.moments.export(), "waiting": waiting_in(self.channel, self.local)}

    def restore(self, state: StateTree) -> None:
        """Restore an exported state, after `establish`. Raises CheckpointError for that of another model."""
        refuse_other_model(state["layout"], self.local.shapes)
        self.local.restore(state)
        self.channel.restore(state["channel"])
        self.local.writes.note(resumed=True)

    def take_over(self, state: StateTree, own: bool, left: Sequence[StateTree] = (), donor: Donor | None = None) -> None:
        """Continue from a state that was exported among other workers, as `CommonState.take_over` does, after `establish`."""
        refuse_other_model(state["layout"], self.local.shapes)
        kept = [residuals_left(self.channels, self.local, each) for each in left]
        self.local.take_over(state, own)
        if state["channel"] is None and donor is not None:  # another worker has exchanged for its group
            state, own = donor(), False
        self.channel.take_over(state["channel"], own)
        if own:
            send_again(self.channel, self.local, state["waiting"])
        if self.chooses:
            self.await_furthest(state["clock"])
            if self.awaits_response:
                self.local.state.set_anchor_to_weights()
        for residuals in kept:
            inherit(self.channels, residuals)
        for each in left:
            self.local.inherit(each)
        self.local.writes.note(resumed=True)

    def await_furthest(self, clock: int) -> None:
        """Exchange nothing until the step `clock` of the furthest, if workers need to agree."""
        alone = clock if self.local.keeps_weights else 0
        self.alone_until = self.local.next_exchange(clock) - 1 if self.chooses else alone

    def _exchange(self) -> PendingExchange:
        """The exchange of a step: in place, where gradients are exchanged and the channel can, or as a vector."""
        in_place = self.channel.offers.in_place
        if in_place is None or not self.sends_gradients:
            return self._send(self.payload.value())
        parameters = self.local.parameters
        parts = parameters.parts() if in_place.sends else parameters.present()
        self.local.check(parts)
        conclude = self._apply_in_place if in_place.sends else self._apply
        return PendingExchange(partial(in_place.exchange_parts, parts), conclude, Part.repeat)

    def _send(self, value: Tensor) -> PendingExchange:
        """The exchange of `value` (numel,). Raises DivergedError if it is not finite."""
        local, weight = self.local, self.local.level.weight
        local.rule.send()  # the rule may replace the weights by the vector that it sends
        local.check([value])
        rates = self.payload.rates()
        start = partial(self.channel.exchange, (value if weight == 1 else value * weight).cpu(), local.state.clock, rates)
        whole = local.rule.exchange(start, self.port, rates)
        return PendingExchange(self.moments.following(whole) if local.rule.traits.averages else whole, self._conclude, Part.repeat)

    def _conclude(self, response: Response) -> None:
        if self.awaits_response and not response.contributions:
            if self.chooses:
                self.local.state.set_anchor_to_weights()
            return  # the update was sent; its response will be collected
        self.local.rule.follow(partial(self._apply, response), self.moments.conclude, self.context)
        self.local.rebase()

    def _apply_in_place(self, response: Response) -> None:
        self.local.parameters.drop_absent()
        self._apply(response)

    def _apply(self, response: Response) -> None:
        local, contributions = self.local, response.contributions
        if local.state.factors:  # as large as the activations of a step, and the exchange is over
            local.state.factors = {}
        if local.snapshots.wanted:
            self.look()
        if len(contributions) < 2:  # the worker's own, or a sum that was made on the way
            response.apply(local.state)
            return
        late, began = [each.staleness for each in contributions], self.port.now()
        response.apply(local.state)
        self.context.charge_merge(len(late) - 1)
        self.context.record(Merged(self.port.now(), self.port.name, local.state.version, late, self.port.now() - began))

    def look(self) -> None:
        """Keep a snapshot of the weights, which are about to change.

        While some parameters have taken the last step and others have not, the weights are no valid state: their next value is kept before
        the next step.
        """
        if self.deferral is None or not self.deferral.part_way:
            self.local.look()

    def _follow_weights(self) -> None:
        """Move the parameters where a response has placed the weights in other memory."""
        if self.local.state.weights is not self.local.parameters.flat:
            self.local.parameters.lie_in(self.local.state.weights)
