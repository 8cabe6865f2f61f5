"""Warm start: a few workers train alone, then the others take over their weights."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from polyrhythm.consistency.asynchronous import Asynchronous
from polyrhythm.core.protocols.capability import Capability
from polyrhythm.core.protocols.consistency import Conditions, Consistency
from polyrhythm.core.protocols.traits import ConsistencyTraits, HeadStart
from polyrhythm.core.settings import checked
from polyrhythm.errors import CompositionError


@dataclass(frozen=True, slots=True)
@checked
class WarmStart:
    """The first `workers` replicas train alone for `steps` steps, then the others take over their weights (Dean et al., 2012, section 4.1).

    Paine et al. (2013) do so too: many replicas that all push gradients computed on random weights disturb each other. Any other worker
    computes its first `steps` steps on the initial weights, and discards and never sends them. At its first exchange from the last of these
    steps on, it waits until the first workers have reached that step, takes over the weights and continues under `then`.
    Optimizers of workers that take local steps keep the state of the discarded steps.
    """

    steps: int
    workers: int = 1
    then: Consistency = field(default_factory=Asynchronous)

    def __post_init__(self) -> None:
        if not (self.steps >= 0 and self.workers >= 1):
            raise CompositionError(
                f"WarmStart(steps={self.steps}, workers={self.workers}) cannot be: give 0 steps or more, and 1 worker or more."
            )
        if self.then.conditions.waits:
            raise CompositionError(
                f"WarmStart(then={self.then!r}) would have the first workers wait for the others, who have not started: give a rule under "
                "which nobody waits for other workers, such as Asynchronous() or Intervals()."
            )

    @property
    def traits(self) -> ConsistencyTraits:
        """The traits of `then`, with a server, which holds the weights that others take over."""
        head_start = HeadStart(self.steps, self.workers)
        return replace(self.then.traits, requires=frozenset({Capability.SERVER}), head_start=head_start)

    @property
    def conditions(self) -> Conditions:
        """The conditions of `then`, after the head start."""
        return self.then.conditions


EXAMPLES = (WarmStart(3),)
