"""The payload of gradients: the gradient of a worker's batch is exchanged, and the holder of the weights then takes the step."""

from __future__ import annotations

from polyrhythm.core.strategy.payloads.checked_rates import checked_rates
from polyrhythm.core.strategy.payloads.protocol import ExchangingPart, PendingExchange
from polyrhythm.core.weights.state import Optimize
from polyrhythm.errors import CompositionError

_INSTEAD = "a system that runs your own optimizer (softsync, ssp, allreduce, …)"


class GradientPayload:
    """Exchanged at every step. Where servers hold the weights, they run the worker's optimizer, unless the merge has its own."""

    def __init__(self, part: ExchangingPart) -> None:
        self.part = part
        self.served = part.pattern.is_held_elsewhere
        self.own_rule = part.agreement.rule is not None
        self.one_rate = self.own_rule or part.agreement.merge.traits.one_rate
        part.optimizer.clips_merged = not self.served
        self.unclipped = not self.served and part.agreement.rule is not None and not part.agreement.rule.takes_norm

    @property
    def optimize(self) -> Optimize | None:
        """The worker's optimizer, which steps on what was merged."""
        return self.part.optimizer.step_on

    @property
    def steps_here(self) -> bool:
        """True unless servers run the optimizer, or the merge has its own."""
        return not self.served and not self.own_rule

    def recipe(self) -> str:
        """The worker's optimizer as text, where servers are to run it."""
        return self.part.optimizer.lend() if self.served and not self.own_rule else ""

    def begin(self) -> None:
        """Refuse several learning rates where the merge takes one, and clipping where that would do nothing."""
        self.rates()
        self._refuse_clipping()

    def rates(self) -> tuple[float, ...]:
        """The learning rates that go with a gradient. Raises CompositionError where there are several and one is taken."""
        return checked_rates(self.part.agreement.merge, self.part.optimizer.rates(), _INSTEAD, self.one_rate)

    def step(self) -> PendingExchange | None:
        """Exchange the gradient of this step."""
        part = self.part
        self._refuse_clipping()
        part.average_gradients()
        if self.served:
            part.optimizer.clip()
        return part.exchange_gradient()

    def finish(self) -> None:
        """Every gradient was exchanged at its step."""

    def _refuse_clipping(self) -> None:
        norm = self.part.optimizer.clip_norm
        if self.unclipped and norm is not None:
            raise CompositionError(
                f"{self.part.agreement.merge!r} takes steps that are as long whatever the norm of the gradient, so clipping that to {norm} "
                "would change nothing: leave clip_norm out, and the clipping of a trainer."
            )
