"""The state that all programs of a run in virtual time share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from polyrhythm.core.kernel.events import Recorder
from polyrhythm.core.simulator.gradients.modes import GradientService
from polyrhythm.core.simulator.mailroom import Mailroom
from polyrhythm.core.simulator.randomness import Randomness
from polyrhythm.core.simulator.requested_stop import VirtualStop
from polyrhythm.core.simulator.rounds import Rounds
from polyrhythm.core.simulator.virtual_crew import VirtualCrew


@dataclass(slots=True)
class SharedState:
    """The state that all programs of a run share.

    `gradients` computes their gradients; `drawing` is the random states of the program that ran last, or None where programs share the
    global ones; `rounds` are by epoch of the view; `stopped` has the steps of the programs that take no more; `stop` is of a run asked to
    end; `crew` is None where it is fixed.
    """

    record: Recorder
    mailroom: Mailroom
    gradients: GradientService
    drawing: Randomness | None
    rounds: dict[int, Rounds] = field(default_factory=dict)
    stopped: dict[str, int] = field(default_factory=dict)
    stop: VirtualStop = field(default_factory=lambda: VirtualStop(0.0))
    crew: VirtualCrew | None = None
    written: Callable[[str], float | None] = lambda name: None
    """Called when a worker has written its part of a checkpoint, with its name: the seconds that a slow disk takes longer."""
