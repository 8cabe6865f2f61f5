"""A worker as its crew changes it, whatever it trains: `changing` calls it, and `regrouping` is the one of a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from polyrhythm.core.kernel.view import ViewChange
from polyrhythm.core.strategy.hand_over import HandOver, Kept
from polyrhythm.core.strategy.strategy_plan import StrategyPlan
from polyrhythm.core.trees import StateTree


class Regrouped(Protocol):
    """A worker as its crew changes it."""

    @property
    def clock(self) -> int:
        """The number of steps that it has taken, or is taking."""

    @property
    def progress(self) -> tuple[int, ...]:
        """The numbers of exchanges completed, of each model, where the workers exchange collectively."""

    @property
    def completed(self) -> int:
        """The number of steps that it has completed."""

    @property
    def exchanged(self) -> int:
        """The step of the last exchange that it has completed; 0 if there is none."""

    @property
    def trained(self) -> int:
        """The number of training steps of a model in parts that it has completed, before the optimizer's: 0 where workers lose no parts."""

    @property
    def alike(self) -> bool:
        """True if every exchange has one result at all workers."""

    @property
    def paced(self) -> bool:
        """True if the workers wait for each other at each step, so that all take equally many."""

    @property
    def meets(self) -> bool:
        """True if the training function has called a method that waits for all workers, or is in one."""

    @property
    def used(self) -> StateTree:
        """What it has used of the data, and holds for a step that it has not completed."""

    @property
    def gone(self) -> Sequence[str]:
        """The servers that it knows to be lost."""

    def look(self) -> None:
        """A cut has come: a worker that joins continues with the variables as they are here."""

    def export(self) -> StateTree:
        """All that a newcomer needs."""

    def kept_back(self) -> Sequence[Kept]:
        """What each replica has not sent, once the others have completed the exchange that is under way here."""

    def rest(self) -> None:
        """Announce to those who would wait for it that the worker takes no further step in this view."""

    def regroup(self, plan: StrategyPlan, handed: HandOver) -> None:
        """Continue among the workers of `plan` from what is `handed` over."""

    def changed(self, change: ViewChange) -> None:
        """The crew has changed, and the worker continues."""
