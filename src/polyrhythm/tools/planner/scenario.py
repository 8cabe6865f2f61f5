"""The scenario of a plan: a JOB, a target, and machines; and the key of all that decides the outcome of a run there. A plan request makes
one, and each run of the search trains in it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any

import msgspec

from polyrhythm.core.job_files.settings import Train, settings_of, with_settings
from polyrhythm.core.job_files.values import read
from polyrhythm.core.records.metrics import Target
from polyrhythm.core.records.outcome import versions
from polyrhythm.core.simulator import OneByOne, SideBySide, Simulator
from polyrhythm.core.simulator.gradients.modes import GradientMode
from polyrhythm.hardware.chosen import chosen_fleet, chosen_network
from polyrhythm.hardware.faults import FaultSource
from polyrhythm.hardware.fleet import Fleet
from polyrhythm.hardware.network import Network
from polyrhythm.tools.measuring.machine_speed import BATCHES
from polyrhythm.tools.planner.candidate import Candidate
from polyrhythm.tools.planner.data_site import DataSite
from polyrhythm.tools.planner.lengths import LONGER, Length, Observed, length_in

_BATCHES = 1000
_SIDE_BY_SIDE = (
    "Gradients of several workers were computed at once where JOB and system allow it: these are runs of `polyrhythm compare --fast`, "
    "whose weights are equal to those without --fast within rounding."
)


@dataclass(frozen=True, slots=True)
class Scenario:
    """`job` is what the training function is called in commands; `facts` are what its runs depend on and a repr would lack.

    `settings` are those of the JOB that all candidates begin with, `observed` what first runs of it showed, `gradients` how those of the
    workers are computed, `data` where its data lie.
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
    observed: Observed = field(default_factory=Observed)
    gradients: GradientMode = SideBySide(threads=1)  # noqa: RUF009 (a frozen value; other runs have the other cores)
    data: DataSite | None = None

    def among(self, candidate: Candidate) -> Scenario:
        """The scenario with the machines of the candidate alone, where it names them."""
        some = candidate.machines
        if not some:
            return self
        network = chosen_network(self.network, some.places, some.of)
        return replace(self, network=network, devices=chosen_fleet(self.devices, some.places))

    def on(self, seed: int) -> Simulator:
        """The machines, in virtual time."""
        return Simulator(network=self.network, devices=self.devices, faults=self.faults, seed=seed, gradients=self.gradients)

    @property
    def computed(self) -> list[str]:
        """What there is to say about how gradients are computed."""
        return [] if self.gradients == OneByOne() else [_SIDE_BY_SIDE]

    @property
    def length(self) -> Length | None:
        """The setting for the length of the JOB's training, with its own value; None where there is none."""
        return length_in({name: self.default(name) for name in settings_of(self.train)})

    @property
    def batch(self) -> int | None:
        """The JOB's batch, where it has a setting of that name."""
        found = [value for name in BATCHES if is_positive(value := self.default(name))]
        return int(found[0]) if found else None

    @property
    def training(self) -> int | None:
        """Samples in the JOB's data, if it says how many."""
        count = getattr(getattr(self.train, "sizes", None), "training", None)
        return count if isinstance(count, int) else None

    @property
    def known(self) -> bool:
        """True if the JOB says how many samples it computes on, so that its length need not be observed."""
        return self.training is not None and (self.length is None or "epoch" in self.length.name)

    def unit(self, batch: int) -> float | None:
        """Samples of one more of the JOB's length, of one worker or, where workers divide them, of all; None where that is not known."""
        if self.known:
            return float(self.training or 0)
        return None if self.observed.unit is None else self.observed.unit * batch

    def samples(self, batch: int) -> float:
        """The samples that one worker computes on by the JOB's own settings, as far as is known; else those of a thousand batches."""
        unit, length, whole = self.unit(batch), self.length, self.observed.whole
        if unit is not None and (length is not None or self.known):
            return unit * (1 if length is None else length.own)
        return (whole or _BATCHES) * float(batch)

    def longer(self, samples: float, workers: int, batch: int) -> dict[str, int]:
        """The length that the JOB needs for so many samples of all workers; nothing where its own is enough, or is its schedule's."""
        length, unit = self.length, self.unit(batch)
        if length is None or self.observed.scheduled:
            return {}
        if unit is None:
            return length.times(LONGER)
        needed = math.ceil(samples / (unit if self.observed.divided else unit * workers))
        return {} if needed <= length.own else {length.name: min(length.own * LONGER, needed)}

    def trained(self, candidate: Candidate) -> Train:
        """The JOB with the candidate's settings, and so long that it ends at the target, not before, unless its schedule depends on that.

        Raises PolyrhythmErrors for settings that it does not have.
        """
        longer = {} if self.length is None or self.observed.scheduled else self.length.times(LONGER)
        return self.set({**longer, **dict(candidate.settings)})

    def set(self, changes: Mapping[str, Any]) -> Train:
        """The JOB with its settings and these."""
        return with_settings(self.train, self.job, {**self.settings, **changes})

    def default(self, name: str) -> Any:
        """The value of a setting that no candidate changes; None where the JOB does not have it."""
        known = settings_of(self.train).get(name)
        given = self.settings.get(name, None if known is None else known.default)
        if known is None or not isinstance(given, str):
            return given
        try:
            return read(given, known.kind)  # as it was typed
        except ValueError:
            return given

    def elsewhere(self, **changed: Any) -> Scenario:
        """The scenario with other machines, faults or network."""
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
                    self.gradients,
                    candidate.strategy,
                    candidate.workers,
                    *further,
                    *([candidate.machines] if candidate.machines else []),
                    *([self.data] if self.data is not None else []),
                ),
            ),
        ]
        return sha256(msgspec.json.encode(decides)).hexdigest()[:32]


def is_positive(value: object) -> bool:
    """True if it is a number above zero."""
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0


def _name_of(train: Train) -> object:
    """A plain function's name; its repr would have an address."""
    return getattr(train, "__qualname__", train)
