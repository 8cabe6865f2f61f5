"""Protocol of controllers: while a run is under way, they set what other pieces would keep as composed.

Members are in `controllers`. The `ControlLoop` of a worker calls them; codecs, consistencies, topologies and shuffles read the `Controls`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import ClassVar, Protocol

from polyrhythm.core.tensors import State


class ControlledSetting(Enum):
    """The settings that a controller can change while a run is under way."""

    RANGES = "partitions"  # the word of Ako, as in the records
    """The number of parts into which a codec divides the vector; it sends one at a time."""
    NBYTES = "bytes"
    """The largest number of bytes of a packet to a receiver."""
    BATCH = "samples a batch"
    """Samples per step of a worker."""
    LOCAL_STEPS = "local steps"
    """Steps of a worker between two exchanges."""
    TEACHER = "worker to learn from"
    """The rank of the worker whose weights a worker takes over in part; itself for none."""


@dataclass(frozen=True, slots=True)
class WorkerMeasure:
    """One worker's last steps: the mean `seconds` of computing a step, and the mean `samples` of a step.

    `loss` is the mean of the metric "loss" that it has reported; the earlier value where it has reported none since, and infinite before
    the first.
    """

    seconds: float
    samples: float
    loss: float = math.inf


@dataclass(frozen=True, slots=True)
class Measurements:
    """The measurements on which a worker decides, after its step `clock`.

    `name` is its own; `workers` are the latest measures of every worker from which one has come, including its own. `bandwidths` are the
    bytes per second that left for each receiver while something was on its way there, of receivers to which enough was sent to measure; the
    empty name has those of all together, where all are sent the same. `nbytes` is the size of the whole vector, `group_size` the number of
    workers.
    """

    clock: int
    name: str
    workers: Mapping[str, WorkerMeasure]
    bandwidths: Mapping[str, float]
    nbytes: int
    group_size: int

    @property
    def mine(self) -> WorkerMeasure:
        """This worker's own measure."""
        return self.workers[self.name]


@dataclass(frozen=True, slots=True)
class Decision:
    """A controller's decision: `setting` is `value` from now on, for one `receiver`, or for all where that is empty."""

    setting: ControlledSetting
    value: float
    receiver: str = ""


@dataclass(frozen=True, slots=True)
class ControllerTraits:
    """The settings that a controller `sets`, `every` so many steps, and whether it looks at the measures of other workers."""

    sets: frozenset[ControlledSetting] = field(default_factory=frozenset)
    every: int = 1
    sees_others: bool = False


class Controller(Protocol):
    """Decides on settings of other pieces. Settings are frozen; its own `state` is an argument and part of the result."""

    @property
    def traits(self) -> ControllerTraits:
        """The properties that composition checks."""

    def decide(self, measured: Measurements, state: State) -> tuple[Sequence[Decision], State]:
        """The changes at this worker, and the next state (empty at first)."""


class Controls(Protocol):
    """The decisions at a worker so far."""

    @property
    def measures(self) -> bool:
        """True if `leaves` and `sent` are wanted, because a controller sets something."""

    def value(self, setting: ControlledSetting, composed: float, receiver: str = "") -> float:
        """The current value, for a `receiver` if one is given; `composed` where nothing was decided."""

    def leaves(self, receiver: str, nbytes: int) -> None:
        """`nbytes` start on their way to `receiver` (to all, where that is empty): a long wait already shows that the link is slow."""

    def sent(self, receiver: str, nbytes: int, seconds: float) -> None:
        """`nbytes` have left for `receiver` (for all, where that is empty) in `seconds`, in which nothing else was sent there."""


class AsComposed:
    """Controls without a controller: every setting keeps its composed value."""

    measures = False

    def value(self, setting: ControlledSetting, composed: float, receiver: str = "") -> float:
        return composed

    def leaves(self, receiver: str, nbytes: int) -> None:
        """Nothing is recorded without a controller."""

    def sent(self, receiver: str, nbytes: int, seconds: float) -> None:
        """Nothing is recorded without a controller."""


AS_COMPOSED = AsComposed()


@dataclass(frozen=True, slots=True)
class Fixed:
    """A controller that sets nothing: all pieces keep the settings with which they were composed."""

    traits: ClassVar = ControllerTraits()

    def decide(self, measured: Measurements, state: State) -> tuple[Sequence[Decision], State]:
        return (), state
