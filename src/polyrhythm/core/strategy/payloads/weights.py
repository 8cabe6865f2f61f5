"""The payload of weights: the weights themselves are exchanged."""

from __future__ import annotations

from polyrhythm.core.protocols.traits import Pattern
from polyrhythm.core.strategy.payloads.local_step import exchanges_now, step_locally
from polyrhythm.core.strategy.payloads.protocol import ExchangingPart, PendingExchange
from polyrhythm.core.weights.state import Optimize


class WeightsPayload:
    """Takes every step locally, and exchanges weights when the consistency says so."""

    def __init__(self, part: ExchangingPart) -> None:
        self.part = part
        self.served = part.pattern is Pattern.SERVED

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
        """Count from the current weights, where the merge or the local rule looks at the change by local steps."""
        agreement = self.part.agreement
        local = agreement.local
        if agreement.merge.traits.sees_moved or local.traits.corrects or local.traits.settles or local.mixing is not None:
            self.part.state.set_anchor()

    def rates(self) -> tuple[float, ...]:
        """The learning rates with which the steps were taken."""
        return self.part.optimizer.rates()

    def step(self) -> PendingExchange | None:
        """Step, and exchange the weights if it is time."""
        part = self.part
        if part.defers():  # the local step was taken too
            return None
        step_locally(part)
        return part.exchange(part.state.weights) if exchanges_now(part) else None

    def finish(self) -> PendingExchange | None:
        """The last exchange with a server, which has seen only what was exchanged; workers average their weights at the end of the run."""
        part = self.part
        return part.exchange(part.state.weights) if self.served and part.clock and not exchanges_now(part) else None
