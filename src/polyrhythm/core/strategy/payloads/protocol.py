"""Protocol of the payloads of a part: what each kind does at a step, and what it may ask of the part that exchanges it.

Members are in `PAYLOADS`. A `Part` makes one by its agreement, and calls it at each step and at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor

from polyrhythm.core.kernel.effects import Effect
from polyrhythm.core.protocols.responses import Response
from polyrhythm.core.protocols.topology import Agreement
from polyrhythm.core.protocols.traits import Pattern
from polyrhythm.core.strategy.gradients import Parameters
from polyrhythm.core.strategy.local_optimizer import LocalOptimizer
from polyrhythm.core.weights.state import ModelState, Optimize


@dataclass(frozen=True, slots=True)
class PendingExchange:
    """An exchange that is to be made: `start` makes its coroutine, and `conclude` applies the response, where the program runs.

    The exchanges of all parts of a replica at a step are under way at the same time.
    """

    start: Callable[[], Coroutine[Effect[Any], Any, Response]]
    conclude: Callable[[Response], None]


class ExchangingPart(Protocol):
    """The part of a replica that a payload belongs to."""

    @property
    def parameters(self) -> Parameters:
        """The parameters that are trained."""

    @property
    def optimizer(self) -> LocalOptimizer:
        """The optimizer of these parameters."""

    @property
    def state(self) -> ModelState:
        """The weights of these parameters."""

    @property
    def agreement(self) -> Agreement:
        """The pieces of the exchange."""

    @property
    def pattern(self) -> Pattern:
        """The pattern in which workers communicate."""

    @property
    def clock(self) -> int:
        """The step that is being taken, from 1."""

    @property
    def taken_rates(self) -> tuple[float, ...]:
        """The learning rates of the optimizer's groups at the step that was taken last, or is being taken."""

    def check(self, values: Sequence[Tensor]) -> None:
        """Raise DivergedError if one of `values` is not finite."""

    def average_gradients(self) -> None:
        """Replace the worker's gradient by the mean of its group, where the group has an inner exchange."""

    def correct_gradients(self) -> None:
        """Replace the worker's gradient by the one that the local rule corrects, if it corrects gradients."""

    def average_updates(self) -> None:
        """Take over the weights on which the group agrees after a local step, where the group has an inner exchange."""

    def defers(self) -> bool:
        """True if this step's exchange is under way tensor by tensor, and forward passes wait for its results; called once a step."""

    def exchange(self, value: Tensor) -> PendingExchange:
        """The exchange of `value` (numel,). Raises DivergedError if it is not finite."""

    @property
    def awaits_response(self) -> bool:
        """True if an update was sent whose response has not been collected."""

    def collect(self) -> PendingExchange | None:
        """The response to an update that was sent some steps ago, if it is due; None where there is none."""

    def exchange_gradient(self) -> PendingExchange | None:
        """The exchange of the parameters' gradients, in the way that needs the fewest copies; None if it is under way."""


class PayloadOfPart(Protocol):
    """A payload of a part: its values, and the place where steps are taken. Made before anything is exchanged."""

    def __init__(self, part: ExchangingPart) -> None: ...

    @property
    def optimize(self) -> Optimize | None:
        """A function that steps on a merged contribution; None where it is subtracted."""

    @property
    def steps_here(self) -> bool:
        """True if the worker's optimizer steps at the worker, so that its state is used."""

    def recipe(self) -> str:
        """A text from which the optimizer is built where the weights are held; empty where it stays here."""

    def begin(self) -> None:
        """Prepare for the initial weights of worker 0, which come next."""

    def rates(self) -> tuple[float, ...]:
        """The learning rates that go with what is exchanged. Raises CompositionError for those that the exchange cannot carry."""

    def step(self) -> PendingExchange | None:
        """Do the work of a step of the worker's optimizer, up to the exchange; None where there is none after this step."""

    def finish(self) -> PendingExchange | None:
        """The exchange, at the end of the run, of what has not been exchanged yet."""
