"""Protocol of the payloads of a part: a worker's own work at a step, and the value that is exchanged after it.

Members are in `PAYLOADS`. A `Part` makes one by its agreement, and calls it at each step and at the end.
"""

from __future__ import annotations

from typing import Protocol

from torch import Tensor

from polyrhythm.core.strategy.local_part import LocalPart


class PayloadOfPart(Protocol):
    """A payload of a part: its values, and the place where steps are taken. Made before anything is exchanged."""

    def __init__(self, local: LocalPart) -> None: ...

    @property
    def steps_here(self) -> bool:
        """True if the worker's optimizer steps at the worker, so that its state is used."""

    def recipe(self) -> str:
        """A text from which the optimizer is built where the weights are held; empty where it stays here."""

    def begin(self) -> None:
        """Prepare for the initial weights of worker 0, which come next."""

    def rates(self) -> tuple[float, ...]:
        """The learning rates that go with what is exchanged. Raises CompositionError for those that the exchange cannot carry."""

    def step(self) -> bool:
        """Do the worker's own work of a step of its optimizer; True if an exchange follows."""

    def value(self) -> Tensor:
        """The vector (numel,) that is exchanged after the step."""

    def rest(self) -> Tensor | None:
        """At the end of the run, the vector (numel,) that has not been exchanged yet; None where there is none."""
