"""The payload of updates: changes of the weights by the worker's own optimizer, with the sign of a gradient."""

from __future__ import annotations

from torch import Tensor

from polyrhythm.core.strategy.local_part import LocalPart
from polyrhythm.core.strategy.payloads.several_rates import several_rates

_INSTEAD = "a system that adds updates up as they are, or whose outer optimizer has its own rate (sparknet, diloco, …)"


class UpdatePayload:
    """Takes every step locally, and exchanges the change since the last exchange when the consistency says so."""

    def __init__(self, local: LocalPart) -> None:
        self.local = local
        rule = local.agreement.rule
        self.one_rate = rule is not None and rule.takes_rate
        self.taken: int | None = None
        self.exchanged: int | None = None
        """The last step that was taken, and that of the last exchange; None before the first, and in a resumed run."""

    @property
    def steps_here(self) -> bool:
        """True: the worker's optimizer takes the local steps."""
        return True

    def recipe(self) -> str:
        """Empty: the optimizer stays here."""
        return ""

    def begin(self) -> None:
        """Count updates from the current weights. Refuse several learning rates where the merge takes one."""
        if self.one_rate:
            self._refused(self.local.optimizer.rates())
        self.local.state.set_anchor()

    def rates(self) -> tuple[float, ...]:
        """The learning rates of the last step: a scheduler may have set others for the next. Before a first step those that it would have,
        for what another worker has handed over. Raises CompositionError as `begin` does."""
        rates = self.local.taken_rates or self.local.optimizer.rates()
        return self._refused(rates) if self.one_rate else rates

    def step(self) -> bool:
        """Take the local step; True if the update is exchanged after it."""
        self.local.step(self.rates)
        self.taken, due = self.local.state.clock, self.local.exchanges
        if due:
            self.exchanged = self.taken
        return due

    def value(self) -> Tensor:
        """The change since the last exchange."""
        return self.local.state.moved()

    def rest(self) -> Tensor | None:
        """The change since the last exchange, if that was not at the last step."""
        # a controller may have decided since, and the consistency would now answer differently for the last step
        done = self.local.exchanges if self.taken is None else self.exchanged == self.taken
        return self.value() if self.local.clock and not done else None

    def _refused(self, rates: tuple[float, ...]) -> tuple[float, ...]:
        if len(set(rates)) > 1:
            raise several_rates(self.local.agreement.merge, rates, _INSTEAD)
        return rates
