"""What the worker's own optimizer did to the weights is exchanged, with the sign of a gradient."""

from __future__ import annotations

from polyrhythm.core.strategy.payloads.checked_rates import checked_rates
from polyrhythm.core.strategy.payloads.local_step import exchanges_now, step_locally
from polyrhythm.core.strategy.payloads.protocol import ExchangingPart, PendingExchange
from polyrhythm.core.weights.state import Optimize

_INSTEAD = "a system that adds updates up as they are, or whose outer optimizer has a rate of its own (sparknet, diloco, …)"


class UpdatePayload:
    """Every step is taken locally; what was done since the last exchange is exchanged when the consistency says so."""

    def __init__(self, part: ExchangingPart) -> None:
        self.part = part
        rule = part.agreement.rule
        self.one_rate = rule is not None and rule.takes_rate
        self.taken: int | None = None
        self.exchanged: int | None = None
        """The last step that was taken, and that of the last exchange; None before the first, and in a resumed run."""

    @property
    def optimize(self) -> Optimize | None:
        """Updates are subtracted."""
        return None

    @property
    def steps_here(self) -> bool:
        """It takes the local steps."""
        return True

    def recipe(self) -> str:
        """The optimizer stays here."""
        return ""

    def begin(self) -> None:
        """Updates count from the weights as they are. Refuse several learning rates where the merge takes one."""
        self._refused(self.part.optimizer.rates())
        self.part.state.set_anchor()

    def rates(self) -> tuple[float, ...]:
        """Those with which the last step was taken: a scheduler may have others for the next. Raises CompositionError as `begin`."""
        return self._refused(self.part.taken_rates)

    def step(self) -> PendingExchange | None:
        """Step, and exchange the update if it is time, or take over what came of one that was sent before."""
        part = self.part
        step_locally(part)
        self.taken = part.clock
        if not exchanges_now(part):
            return part.collect()
        self.exchanged = part.clock
        return part.exchange(part.state.moved())

    def finish(self) -> PendingExchange | None:
        """Exchange what was done since the last exchange; while the response to that is awaited, it would not count alike at all."""
        part = self.part
        # a controller may have decided since, after which the consistency would not say of the last step what it said then
        done = exchanges_now(part) if self.taken is None else self.exchanged == self.taken
        return part.exchange(part.state.moved()) if part.clock and not done and not part.awaits_response else None

    def _refused(self, rates: tuple[float, ...]) -> tuple[float, ...]:
        return checked_rates(self.part.agreement.merge, rates, _INSTEAD, self.one_rate)
