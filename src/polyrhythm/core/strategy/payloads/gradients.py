"""The payload of gradients: the gradient of a worker's batch is exchanged, and the holder of the weights then takes the step."""

from __future__ import annotations

from torch import Tensor

from polyrhythm.core.protocols.capability import Capability
from polyrhythm.core.strategy.local_part import LocalPart
from polyrhythm.core.strategy.payloads.several_rates import several_rates
from polyrhythm.errors import CompositionError

_INSTEAD = "a system that runs your own optimizer (softsync, ssp, allreduce, …)"


class GradientPayload:
    """Exchanged at every step. Where servers hold the weights, they run the worker's optimizer, unless the merge has its own."""

    def __init__(self, local: LocalPart) -> None:
        self.local = local
        self.served = Capability.HELD_ELSEWHERE in local.provides
        rule = local.agreement.rule
        self.own_rule = rule is not None
        self.one_rate = self.own_rule or local.agreement.merge.traits.one_rate
        local.optimizer.clips_merged = not self.served
        self.unclipped = not self.served and rule is not None and not rule.takes_norm

    @property
    def steps_here(self) -> bool:
        """True unless servers run the optimizer, or the merge has its own."""
        return not self.served and not self.own_rule

    def recipe(self) -> str:
        """The worker's optimizer as text, where servers are to run it."""
        return self.local.optimizer.lend() if self.served and not self.own_rule else ""

    def begin(self) -> None:
        """Refuse several learning rates where the merge takes one, and clipping where that would do nothing."""
        self.rates()
        self._refuse_clipping()

    def rates(self) -> tuple[float, ...]:
        """The learning rates that go with a gradient. Raises CompositionError where there are several and one is taken."""
        rates = self.local.optimizer.rates()
        if self.one_rate and len(set(rates)) > 1:
            raise several_rates(self.local.agreement.merge, rates, _INSTEAD)
        return rates

    def step(self) -> bool:
        """Average the gradient inside the worker's group; True: it is exchanged at every step."""
        if self.unclipped:
            self._refuse_clipping()
        if self.local.inner:
            self.local.average_gradients(self.rates)
        if self.served:
            self.local.optimizer.clip()
        return True

    def value(self) -> Tensor:
        """The gradient of this step."""
        return self.local.parameters.gradient()

    def rest(self) -> None:
        """None: every gradient was exchanged at its step."""

    def _refuse_clipping(self) -> None:
        norm = self.local.optimizer.clip_norm
        if self.unclipped and norm is not None:
            raise CompositionError(
                f"{self.local.agreement.merge!r} takes steps that are as long whatever the norm of the gradient, so clipping that to "
                f"{norm} would change nothing: leave clip_norm out, and the clipping of a trainer."
            )
