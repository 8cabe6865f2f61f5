"""What a kind of payload is to the part of a replica that exchanges it, and what it may ask of that part."""

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
    """An exchange that is to be made: `start` makes its coroutine, and `conclude` does what the response says, where the program runs.

    What all parts of a replica are about to exchange at a step is under way at the same time.
    """

    start: Callable[[], Coroutine[Effect[Any], Any, Response]]
    conclude: Callable[[Response], None]


class ExchangingPart(Protocol):
    """The part of a replica that a payload is of."""

    @property
    def parameters(self) -> Parameters:
        """What is trained."""

    @property
    def optimizer(self) -> LocalOptimizer:
        """Steps on them."""

    @property
    def state(self) -> ModelState:
        """Their weights."""

    @property
    def agreement(self) -> Agreement:
        """The pieces of the exchange."""

    @property
    def pattern(self) -> Pattern:
        """With whom it is."""

    @property
    def clock(self) -> int:
        """The step that is being taken, from 1."""

    @property
    def taken_rates(self) -> tuple[float, ...]:
        """The learning rates of the optimizer's groups at the step that was taken last, or is being taken."""

    def check(self, values: Sequence[Tensor]) -> None:
        """Raise DivergedError if one of `values` is not finite."""

    def average_gradients(self) -> None:
        """Put the mean gradient of the worker's group in the place of its own, where the group has exchanges of its own."""

    def correct_gradients(self) -> None:
        """Put what the rule for local steps makes of the worker's gradient in its place, if it makes something else of it."""

    def average_updates(self) -> None:
        """Take over what the worker's group agrees on after a local step, where the group has exchanges of its own."""

    def defers(self) -> bool:
        """Whether this step's exchange is under way tensor by tensor, and forward passes wait for what comes of it; to be asked once."""

    def exchange(self, value: Tensor) -> PendingExchange:
        """The exchange of `value` (numel,). Raises DivergedError if it is not finite."""

    @property
    def awaits_response(self) -> bool:
        """Whether an update was sent whose response has not been collected."""

    def collect(self) -> PendingExchange | None:
        """What comes of an update that was sent some steps ago, if it is time; None where nothing does."""

    def exchange_gradient(self) -> PendingExchange | None:
        """As `exchange` of the gradients that the parameters have, in the way that needs the fewest copies; None if it is under way."""


class PayloadOfPart(Protocol):
    """What a worker sends of its steps, and who takes them. Made before anything is exchanged."""

    def __init__(self, part: ExchangingPart) -> None: ...

    @property
    def optimize(self) -> Optimize | None:
        """How a merged contribution becomes a step; None where it is subtracted."""

    @property
    def steps_here(self) -> bool:
        """Whether the worker's optimizer steps at the worker, so that its state counts."""

    def recipe(self) -> str:
        """How the optimizer is built where the weights are held; empty where it stays here."""

    def begin(self) -> None:
        """The weights are about to become those of worker 0."""

    def rates(self) -> tuple[float, ...]:
        """The learning rates that go with what is exchanged. Raises CompositionError for those that the exchange cannot carry."""

    def step(self) -> PendingExchange | None:
        """Do what a step of the worker's optimizer stands for, up to the exchange; None where there is none after this step."""

    def finish(self) -> PendingExchange | None:
        """The exchange of what has not been exchanged yet; the run ends."""
