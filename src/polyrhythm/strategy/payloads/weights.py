"""The weights themselves are exchanged."""

from __future__ import annotations

from polyrhythm.model.state import Optimize
from polyrhythm.pieces.traits import Pattern
from polyrhythm.strategy.payloads.local_step import exchanges_now, step_locally
from polyrhythm.strategy.payloads.protocol import ExchangingPart


class WeightsPayload:
    """Every step is taken locally; weights are exchanged when the consistency says so."""

    def __init__(self, part: ExchangingPart) -> None:
        self.part = part
        self.served = part.pattern is Pattern.SERVED

    @property
    def optimize(self) -> Optimize | None:
        """Weights are mixed."""
        return None

    def recipe(self) -> str:
        """The optimizer stays here."""
        return ""

    def begin(self) -> None:
        """Nothing is counted."""

    def rates(self) -> tuple[float, ...]:
        """Those with which the steps were taken."""
        return self.part.optimizer.rates()

    def step(self) -> None:
        """Step, and exchange the weights if it is time."""
        part = self.part
        step_locally(part)
        if exchanges_now(part):
            part.exchange(part.state.weights)

    def finish(self) -> None:
        """A server has seen only what was exchanged; among workers, the end of the run averages the weights."""
        part = self.part
        if self.served and part.clock and not exchanges_now(part):
            part.exchange(part.state.weights)
