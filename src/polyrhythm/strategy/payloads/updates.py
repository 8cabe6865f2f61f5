"""What the worker's own optimizer did to the weights is exchanged, with the sign of a gradient."""

from __future__ import annotations

from polyrhythm.model.state import Optimize
from polyrhythm.strategy.payloads.local_step import exchanges_now, step_locally
from polyrhythm.strategy.payloads.protocol import ExchangingPart, PendingExchange


class UpdatePayload:
    """Every step is taken locally; what was done since the last exchange is exchanged when the consistency says so."""

    def __init__(self, part: ExchangingPart) -> None:
        self.part = part

    @property
    def optimize(self) -> Optimize | None:
        """Updates are subtracted."""
        return None

    def recipe(self) -> str:
        """The optimizer stays here."""
        return ""

    def begin(self) -> None:
        """Updates count from the weights as they are."""
        self.part.state.set_anchor()

    def rates(self) -> tuple[float, ...]:
        """Those with which the steps were taken."""
        return self.part.optimizer.rates()

    def step(self) -> PendingExchange | None:
        """Step, and exchange the update if it is time, or take over what came of one that was sent before."""
        part = self.part
        step_locally(part)
        return part.exchange(part.state.moved()) if exchanges_now(part) else part.collect()

    def finish(self) -> PendingExchange | None:
        """Exchange what was done since the last exchange; while the response to that is awaited, it would not count alike at all."""
        part = self.part
        return part.exchange(part.state.moved()) if part.clock and not exchanges_now(part) and not part.awaits_response else None
