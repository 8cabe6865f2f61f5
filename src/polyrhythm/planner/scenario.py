"""What a plan is for: a JOB, a target, and machines; and what decides the outcome of a run there."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any

import msgspec

from polyrhythm.hardware.faults import FaultSource
from polyrhythm.hardware.fleet import Fleet
from polyrhythm.hardware.network import Network
from polyrhythm.planner.candidate import Candidate
from polyrhythm.report.metrics import Target
from polyrhythm.report.outcome import versions
from polyrhythm.simulator import Simulator
from polyrhythm.workloads.settings import Train, settings_of, with_settings

_LONGER = 8
"""A run may take so many times the epochs of the JOB until it reaches the target."""
_SOME_MORE = 1.2
BATCHES = ("batch_size", "batch")
"""Names of the setting that is a worker's samples for a step."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """`job` is what the training function is called in commands; `facts` are what its runs depend on and a repr would lack.

    `settings` are those of the JOB that all candidates begin with.
    """

    job: str
    train: Train
    target: Target
    network: Network
    devices: Fleet
    seed: int = 0
    faults: tuple[FaultSource, ...] = ()
    facts: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)

    def on(self, seed: int) -> Simulator:
        """The machines, in virtual time."""
        return Simulator(network=self.network, devices=self.devices, faults=self.faults, seed=seed)

    @property
    def epochs(self) -> int | None:
        """How many the JOB goes through its data by its own settings; None where it has no such setting."""
        epochs = self.default("epochs")
        return epochs if isinstance(epochs, int) else None

    @property
    def batch(self) -> int | None:
        """The JOB's batch, where it has a setting of that name."""
        found = [value for name in BATCHES if is_positive(value := self.default(name))]
        return int(found[0]) if found else None

    @property
    def _training(self) -> int | None:
        """Samples in the JOB's data, if it says how many."""
        count = getattr(getattr(self.train, "sizes", None), "training", None)
        return count if isinstance(count, int) else None

    def samples(self, batch: int) -> float:
        """How many samples the JOB computes on by its own settings, if it says so; else those of a thousand batches."""
        return 1000.0 * batch if self._training is None else float(self._training * (self.epochs or 1))

    def longer(self, samples: float) -> dict[str, int]:
        """The settings that the JOB needs for so many samples and some more; none where its own are enough, or where that is not known."""
        if self._training is None or self.epochs is None or samples <= self._training * self.epochs:
            return {}
        return {"epochs": min(self.epochs * _LONGER, math.ceil(_SOME_MORE * samples / self._training))}

    def trained(self, candidate: Candidate) -> Train:
        """The JOB with the candidate's settings, and so many epochs that it ends at the target, not before.

        Raises PolyrhythmErrors for settings that it does not have.
        """
        longer = {} if self.epochs is None else {"epochs": self.epochs * _LONGER}
        return self.set({**longer, **dict(candidate.settings)})

    def set(self, changes: Mapping[str, Any]) -> Train:
        """The JOB with its settings and these."""
        return with_settings(self.train, self.job, {**self.settings, **changes})

    def default(self, name: str) -> Any:
        """What a setting is where no candidate changes it; None where the JOB does not have it."""
        known = settings_of(self.train).get(name)
        return self.settings.get(name, None if known is None else known.default)

    def elsewhere(self, **changed: Any) -> Scenario:
        """The same on other machines."""
        return replace(self, **changed)

    def key(self, candidate: Candidate, *further: object) -> str:
        """A digest of all that decides the outcome of a run of the candidate here, and of `further` settings."""
        decides: list[object] = [
            versions(),
            dict(sorted(self.facts.items())),
            *map(
                repr,
                (
                    _name_of(self.trained(candidate)),
                    self.network,
                    self.devices,
                    self.faults,
                    candidate.strategy,
                    candidate.workers,
                    *further,
                ),
            ),
        ]
        return sha256(msgspec.json.encode(decides)).hexdigest()[:32]


def is_positive(value: object) -> bool:
    """Whether it is a number above zero."""
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0


def _name_of(train: Train) -> object:
    """A plain function's name; its repr would have an address."""
    return getattr(train, "__qualname__", train)
