"""The exchanges of a replica's steps: those of all parts at once, and again where the loss of a worker has interrupted them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from operator import itemgetter

from polyrhythm.core.kernel.job import WorkerContext
from polyrhythm.core.kernel.together import together
from polyrhythm.core.kernel.view import ViewChange, ViewChanged
from polyrhythm.core.protocols.capability import Capability
from polyrhythm.core.strategy.part import Part
from polyrhythm.core.strategy.pending_exchange import PendingExchange

Pending = list[tuple[Part, PendingExchange]]


def cannot_reform(change: ViewChange) -> bool:
    """No crew changes: nothing interrupts an exchange."""
    raise AssertionError("a crew that is fixed has changed")


def _sends_late(part: Part) -> bool:
    """True if a worker that continues from a donor's state has still to send what goes into a later sum."""
    sums = part.channel.offers.sums
    return sums is not None and not sums.over(part.local.clock)


class StepExchanges:
    """Makes the exchanges of the present `parts`, which are others in each view; so many were `completed`, the last in
    the step `last`.

    `again` is called when a step that was interrupted is continued, `concluded` when the exchanges are made. `reform` goes into the next
    view; False where a donor's state has the result of the exchange.
    """

    def __init__(self, context: WorkerContext, parts: Callable[[], Sequence[Part]], again: Callable[[], None]) -> None:
        self.context = context
        self.parts = parts
        self.again = again
        self.completed = 0
        self.last = 0
        self.reform: Callable[[ViewChange], bool] = cannot_reform
        self.concluded: Callable[[], None] | None = None

    def computed(self) -> Pending:
        """Take a step in each part, and return the exchanges: none where a donor's state has the result."""
        pending, done, clock = Pending(), 0, self.parts()[0].local.clock + 1
        while done < len(self.parts()):
            part = self.parts()[done]
            try:
                if (made := part.step()) is not None:
                    pending.append((part, made))
                done += 1
            except ViewChanged as interruption:  # an exchange inside the worker's group was interrupted
                if not self.reform(interruption.change):
                    return []
                pending = [(each, again) for each in self.parts()[:done] if (again := each.repeat()) is not None]
                for each in self.parts()[done:]:
                    each.local.state.clock = clock - 1
        return pending

    def complete(self, pending: Pending) -> None:
        """Make the exchanges of a step; again in the next view, where the loss of a worker has interrupted them at all others."""
        own = True
        while pending:
            try:
                self._exchange(pending)
                if self.concluded is not None:
                    self.concluded()
                if own:
                    self.completed += 1
                    self.last = self.parts()[0].local.clock
                return
            except ViewChanged as interruption:
                places = [self.parts().index(part) for part, _ in pending]
                self._count(-1)  # a worker that joins takes this step
                own = self.reform(interruption.change) and own
                self._count(1)
                self.again()
                made = [(self.parts()[k], each) for k, (_, each) in zip(places, pending, strict=True)]
                repeated = [(part, each.again(part)) for part, each in made if own or _sends_late(part)]
                pending = [(part, again) for part, again in repeated if again is not None]

    def _count(self, steps: int) -> None:
        for part in self.parts():
            part.local.state.clock += steps

    def _exchange(self, pending: Pending) -> None:
        """Make the exchanges of all parts at the same time; their responses are applied in the order of parts."""
        if len(pending) == 1:
            (_, alone), *_ = pending
            response = self.context.perform(alone.start())
            self.context.counted(partial(alone.conclude, response))
            return
        # native sums wait for the exchanges before them, and those with servers and peers make none
        order = sorted(range(len(pending)), key=lambda k: Capability.COLLECTIVES not in pending[k][0].local.provides)
        responses = self.context.perform(together(self.context.port, [pending[k][1].start for k in order]))
        for k, response in sorted(zip(order, responses, strict=True), key=itemgetter(0)):
            self.context.counted(partial(pending[k][1].conclude, response))
