"""The payload of updates: changes of the weights by the worker's own optimizer, with the sign of a gradient."""

from __future__ import annotations

from polyrhythm.core.strategy.payloads.checked_rates import checked_rates
from polyrhythm.core.strategy.payloads.local_step import exchanges_now, step_locally
from polyrhythm.core.strategy.payloads.protocol import ExchangingPart, PendingExchange
from polyrhythm.core.weights.state import Optimize

_INSTEAD = "a system that adds updates up as they are, or whose outer optimizer has its own rate (sparknet, diloco, …)"


class UpdatePayload:
    """Takes every step locally, and exchanges the change since the last exchange when the consistency says so."""

    def __init__(self, part: ExchangingPart) -> None:
        self.part = part
        rule = part.agreement.rule
        self.one_rate = rule is not None and rule.takes_rate
        self.taken: int | None = None
        self.exchanged: int | None = None
        """The last step that was taken, and that of the last exchange; None before the first, and in a resumed run."""

    @property
    def optimize(self) -> Optimize | None:
        return None

    @property
    def steps_here(self) -> bool:
        """True: the worker's optimizer takes the local steps."""
        return True

    def recipe(self) -> str:
        """Empty: the optimizer stays here."""
        return ""

    def begin(self) -> None:
        """Count updates from the current weights. Refuse several learning rates where the merge takes one."""
        self._refused(self.part.optimizer.rates())
        self.part.state.set_anchor()

    def rates(self) -> tuple[float, ...]:
        """The learning rates of the last step: a scheduler may have set others for the next. Raises CompositionError as `begin` does."""
        return self._refused(self.part.taken_rates)

    def step(self) -> PendingExchange | None:
        """Step, and exchange the update if it is time, or collect the response to an earlier one."""
        part = self.part
        step_locally(part)
        self.taken = part.clock
        if not exchanges_now(part):
            return part.collect()
        self.exchanged = part.clock
        return part.exchange(part.state.moved())

    def finish(self) -> PendingExchange | None:
        """Exchange the rest since the last exchange, unless a response to that is awaited: replicas would count the rest differently."""
        part = self.part
        # a controller may have decided since, and the consistency would now answer differently for the last step
        done = exchanges_now(part) if self.taken is None else self.exchanged == self.taken
        return part.exchange(part.state.moved()) if part.clock and not done and not part.awaits_response else None

    def _refused(self, rates: tuple[float, ...]) -> tuple[float, ...]:
        return checked_rates(self.part.agreement.merge, rates, _INSTEAD, self.one_rate)
