"""The payload of weights: the weights themselves are exchanged."""

from __future__ import annotations

from torch import Tensor

from polyrhythm.core.protocols.capability import Capability
from polyrhythm.core.strategy.local_part import LocalPart


class WeightsPayload:
    """Takes every step locally, and exchanges weights when the consistency says so."""

    def __init__(self, local: LocalPart) -> None:
        self.local = local
        self.served = Capability.HELD_ELSEWHERE in local.provides

    @property
    def steps_here(self) -> bool:
        """True: the worker's optimizer takes the local steps."""
        return True

    def recipe(self) -> str:
        """Empty: the optimizer stays here."""
        return ""

    def begin(self) -> None:
        """Count from the current weights, where the merge or the local rule looks at the change by local steps."""
        agreement = self.local.agreement
        hooks = agreement.local.hooks
        if agreement.merge.traits.sees_moved or any(each is not None for each in (hooks.correct, hooks.settle, hooks.mixing)):
            self.local.state.set_anchor()

    def rates(self) -> tuple[float, ...]:
        """The learning rates with which the steps were taken."""
        return self.local.optimizer.rates()

    def step(self) -> bool:
        """Take the local step; True if the weights are exchanged after it."""
        self.local.step(self.rates)
        return self.local.exchanges

    def value(self) -> Tensor:
        """The weights after this step."""
        return self.local.state.weights

    def rest(self) -> Tensor | None:
        """The weights, if a server has not seen the last ones; workers average their weights at the end of the run."""
        return self.value() if self.served and self.local.clock and not self.local.exchanges else None
