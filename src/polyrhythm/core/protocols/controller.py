"""What a controller is: it sets, while a run is under way, what other pieces would keep as they were composed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import ClassVar, Protocol

from polyrhythm.core.tensors import State


class ControlledSetting(Enum):
    """What can be set while a run is under way."""

    RANGES = "partitions"  # the word of Ako, as in the records
    """Into how many parts a codec divides the vector, of which it sends one at a time."""
    NBYTES = "bytes"
    """How many bytes a packet to a receiver may have."""
    BATCH = "samples a batch"
    """How many samples a worker takes a step."""
    LOCAL_STEPS = "local steps"
    """How many steps a worker takes between two exchanges."""
    TEACHER = "worker to learn from"
    """The rank of the worker whose weights a worker takes over in part; itself for none."""


@dataclass(frozen=True, slots=True)
class WorkerMeasure:
    """One worker over its last steps: the `seconds` that it computed for one, and the `samples` of one.

    `loss` is the mean of what it has reported under this name; what it was before where it has not, and infinite before it has.
    """

    seconds: float
    samples: float
    loss: float = math.inf


@dataclass(frozen=True, slots=True)
class Measurements:
    """What a worker knows when it decides, after its step `clock`.

    `name` is its own; `workers` are the latest measures of all from which one has come, its own among them. `bandwidths` are the bytes per
    second that left for each receiver while something was on its way there, of those to which enough was sent to tell; under the empty
    name those for all together, where all are sent the same. `nbytes` is the size of the whole vector, `group_size` the number of workers.
    """

    clock: int
    name: str
    workers: Mapping[str, WorkerMeasure]
    bandwidths: Mapping[str, float]
    nbytes: int
    group_size: int

    @property
    def mine(self) -> WorkerMeasure:
        """Its own measure."""
        return self.workers[self.name]


@dataclass(frozen=True, slots=True)
class Decision:
    """`setting` is `value` from now on; for one `receiver`, or for all where that is empty."""

    setting: ControlledSetting
    value: float
    receiver: str = ""


@dataclass(frozen=True, slots=True)
class ControllerTraits:
    """What a controller sets, `every` how many steps it decides, and whether it looks at the measures of other workers."""

    sets: frozenset[ControlledSetting] = field(default_factory=frozenset)
    every: int = 1
    sees_others: bool = False


class Controller(Protocol):
    """Frozen settings; what it remembers goes in as `state` and comes out."""

    @property
    def traits(self) -> ControllerTraits:
        """What it declares of itself."""

    def decide(self, measured: Measurements, state: State) -> tuple[Sequence[Decision], State]:
        """What is to change at this worker, and the next state (empty at first)."""


class Controls(Protocol):
    """What has been decided at a worker so far."""

    @property
    def measures(self) -> bool:
        """Whether anybody wants to know what `leaves` and is `sent`."""

    def value(self, setting: ControlledSetting, composed: float, receiver: str = "") -> float:
        """The value that is in force, for a `receiver` if one is given; `composed` where nothing was decided."""

    def leaves(self, receiver: str, nbytes: int) -> None:
        """`nbytes` are now sent to `receiver` (to all, where that is empty): until they have left, time says what the line cannot do."""

    def sent(self, receiver: str, nbytes: int, seconds: float) -> None:
        """`nbytes` have left for `receiver` (for all, where that is empty) in `seconds`, in which nothing else was sent there."""


class AsComposed:
    """Nothing is ever decided."""

    measures = False

    def value(self, setting: ControlledSetting, composed: float, receiver: str = "") -> float:
        """As composed."""
        return composed

    def leaves(self, receiver: str, nbytes: int) -> None:
        """Nobody wants to know."""

    def sent(self, receiver: str, nbytes: int, seconds: float) -> None:
        """Nobody wants to know."""


AS_COMPOSED = AsComposed()


@dataclass(frozen=True, slots=True)
class Fixed:
    """All pieces keep the settings with which they were composed."""

    traits: ClassVar = ControllerTraits()

    def decide(self, measured: Measurements, state: State) -> tuple[Sequence[Decision], State]:
        """Nothing."""
        return (), state
