"""Trainings on real processes: processes × threads, precision, libraries, devices, systems, and settings of the job."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Literal

import msgspec
import torch

from polyrhythm.core.job_files.settings import Train
from polyrhythm.core.processes import Processes
from polyrhythm.systems import find
from polyrhythm.tools.studies.grid import Cell, Level, cores, counts, crossed
from polyrhythm.tools.studies.trainings import UNITS, check_job, job_facts, loaded, quantities

Precision = Literal["float32", "bfloat16"]


@dataclass(frozen=True, slots=True)
class Tempered:
    """A training function under autocast to `precision`, with oneDNN or without."""

    train: Train
    precision: str
    onednn: bool

    def __call__(self, worker: Any) -> None:
        """Train as one of the workers."""
        device = "cuda" if str(worker.device).startswith("cuda") else "cpu"
        # without its cache: that of the whole run would have the first weights in bfloat16 for all steps
        lower = torch.autocast(device, torch.bfloat16, cache_enabled=False) if self.precision == "bfloat16" else nullcontext()
        torch.backends.mkldnn.enabled = self.onednn  # type: ignore[assignment]  # of this process, which ends with the run
        with lower:
            self.train(worker)


class RealGrid(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The table [real]: `job` with `settings` is trained in each combination of the others; `vary` has settings of the job by name.

    A cell whose workers and threads are more than the cores is refused: its seconds would be those of the scheduler.
    """

    job: str
    settings: dict[str, Any] = {}
    systems: tuple[str, ...] = ("allreduce",)
    workers: tuple[int, ...] = (1,)
    threads: tuple[int, ...] = (1,)
    devices: tuple[Literal["cpu", "cuda"], ...] = ("cpu",)
    precision: tuple[Precision, ...] = ("float32",)
    onednn: tuple[bool, ...] = (True,)
    vary: dict[str, tuple[Level, ...]] = {}

    @property
    def about(self) -> str:
        """What is measured."""
        return f"{self.job} on real processes of this machine; real seconds"

    @property
    def units(self) -> Mapping[str, str]:
        """Units by quantity."""
        return UNITS

    def check(self) -> None:
        """Raise PolyrhythmErrors for systems, a job or settings that do not exist."""
        counts("workers", self.workers)
        counts("threads", self.threads)
        for system in self.systems:
            find(system)
        check_job(self.job, self.settings, self.vary, list(self._own()))
        self.cells()

    def cells(self) -> list[dict[str, Level]]:
        """All combinations."""
        return crossed({**self._own(), **self.vary})

    def refused(self, cell: Cell) -> str:
        """Why a cell is not measured."""
        threads = int(cell["workers"]) * int(cell["threads"])
        if threads > cores():
            return f"refused: {cell['workers']} workers of {cell['threads']} threads are more than the {cores()} cores"
        if cell["device"] == "cuda" and torch.cuda.device_count() < int(cell["workers"]):
            return f"refused: {cell['workers']} workers need as many CUDA devices, and there are {torch.cuda.device_count()}"
        return ""

    def decisive(self, cell: Cell) -> Mapping[str, Any]:
        """The job, and the cell."""
        return {**job_facts(self.job, self.settings), **cell}

    def measure(self, cell: Cell, repetition: int) -> Mapping[str, float]:
        """Train once in new processes; the repetition is the seed."""
        train = loaded(self.job, self.settings, list(self.vary), cell)
        tempered = Tempered(train, str(cell["precision"]), bool(cell["onednn"]))
        on = Processes(threads=int(cell["threads"]), cuda=cell["device"] == "cuda")
        return quantities(tempered, str(cell["system"]), int(cell["workers"]), on, repetition)

    def _own(self) -> dict[str, tuple[Any, ...]]:
        return {
            "system": self.systems,
            "workers": self.workers,
            "threads": self.threads,
            "device": self.devices,
            "precision": self.precision,
            "onednn": self.onednn,
        }
