"""Trainings in virtual time: networks, devices, systems, workers, and settings of the job."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from polyrhythm.core.simulator import Simulator
from polyrhythm.hardware import devices as known_devices
from polyrhythm.hardware import network as known_networks
from polyrhythm.systems import find
from polyrhythm.tools.studies.grid import Cell, Level, counts, crossed
from polyrhythm.tools.studies.trainings import UNITS, check_job, job_facts, loaded, quantities


class VirtualGrid(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The table [virtual]: `job` with `settings` is trained with real gradients in virtual time, in each combination of the others."""

    job: str
    settings: dict[str, Any] = {}
    systems: tuple[str, ...] = ("allreduce",)
    workers: tuple[int, ...] = (1,)
    networks: tuple[str, ...] = ("lan",)
    devices: tuple[str, ...] = ("cpu-core",)
    vary: dict[str, tuple[Level, ...]] = {}

    @property
    def about(self) -> str:
        """What is measured."""
        return f"{self.job} in the simulator; virtual seconds, of machines and networks that are simulated"

    @property
    def units(self) -> Mapping[str, str]:
        """Units by quantity."""
        return UNITS

    def check(self) -> None:
        """Raise PolyrhythmErrors for systems, networks, devices, a job or settings that do not exist."""
        counts("workers", self.workers)
        for system in self.systems:
            find(system)
        for network in self.networks:
            known_networks.load(network)
        for device in self.devices:
            known_devices.load(device)
        check_job(self.job, self.settings, self.vary, list(self._own()))
        self.cells()

    def cells(self) -> list[dict[str, Level]]:
        """All combinations."""
        return crossed({**self._own(), **self.vary})

    def refused(self, cell: Cell) -> str:
        """Nothing is: virtual workers need no cores."""
        return ""

    def decisive(self, cell: Cell) -> Mapping[str, Any]:
        """The job, and the cell."""
        return {**job_facts(self.job, self.settings), **cell}

    def measure(self, cell: Cell, repetition: int) -> Mapping[str, float]:
        """Train once; the repetition is the seed."""
        train = loaded(self.job, self.settings, list(self.vary), cell)
        on = Simulator(network=str(cell["network"]), devices=str(cell["device"]), seed=repetition)
        return quantities(train, str(cell["system"]), int(cell["workers"]), on, repetition)

    def _own(self) -> dict[str, tuple[Any, ...]]:
        return {"system": self.systems, "workers": self.workers, "network": self.networks, "device": self.devices}
