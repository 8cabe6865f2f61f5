"""From typed words to runs that can be made: everything that can be refused is refused here, before anything runs.

`run`, `compare`, `plan` and `check` call it.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from polyrhythm.core.job_files.script import arguments
from polyrhythm.core.job_files.settings import Train, with_settings
from polyrhythm.core.kernel.crew import Crew
from polyrhythm.core.records.directory import RUN
from polyrhythm.core.strategy.strategy import Strategy
from polyrhythm.errors import CompositionError, WorkloadError
from polyrhythm.hardware import devices
from polyrhythm.hardware import network as networks
from polyrhythm.hardware.files import located
from polyrhythm.hardware.presets import PRESETS
from polyrhythm.tools.cli.fairness import share_batch
from polyrhythm.tools.cli.groups import RuntimeOptions
from polyrhythm.tools.cli.planned_run import PlannedRun
from polyrhythm.tools.cli.record import COMPARISON
from polyrhythm.tools.cli.runtimes import runtime, settled
from polyrhythm.tools.cli.shares import with_shares
from polyrhythm.tools.report.series import DEVICE
from polyrhythm.workloads.load import file_of, is_bundled, load_workload


@dataclass(frozen=True, slots=True)
class Typed:
    """The arguments and options that commands share, as they were typed."""

    job: str
    arguments: Sequence[str]
    crew: Crew
    where: RuntimeOptions
    counts: str = ""
    """The numbers of workers of a comparison, "2,4"."""

    @property
    def workers(self) -> int:
        """The number of workers with which a run begins."""
        return self.crew.most

    def command(self, verb: str, *, before: Sequence[str], after: Sequence[str]) -> str:
        """The whole command line, with the arguments `before` the shared options and `after` them."""
        shared = ["--workers", self.counts or str(self.crew), *self.where.arguments()]
        own = ["--", *self.arguments] if self.arguments else []
        return shlex.join(["polyrhythm", verb, self.job, *before, *shared, *after, *own])


def typed(job: str, given: Sequence[str] | None, workers: int | Crew, where: RuntimeOptions) -> Typed:
    """The typed words and numbers, with the runtime chosen."""
    return Typed(job, tuple(given or ()), Crew.of(workers), settled(where))


@dataclass(frozen=True, slots=True)
class Prepared:
    """A JOB that was loaded; `facts` are what its runs depend on and their records would lack."""

    typed: Typed
    train: Train
    facts: Mapping[str, str]

    def at(self, given: Typed) -> Prepared:
        """The same JOB on other machines."""
        return replace(self, typed=given, facts=_facts(given))

    def check(self, settings: Mapping[str, Any]) -> None:
        """Raise PolyrhythmErrors for settings that the JOB does not have."""
        with_settings(self.train, self.typed.job, settings)

    def share_batch(self, total: int, strategies: Mapping[str, Strategy | None]) -> dict[str, dict[str, str]]:
        """The batch of each worker, for each system. Raises CompositionError where there is none."""
        return share_batch(total, self.train, strategies, self.typed.workers)

    def plan(
        self, name: str, place: str, strategy: Strategy | None, settings: Mapping[str, Any], seed: int, notes: Mapping[str, str]
    ) -> PlannedRun:
        """One run of it, with `notes` in its record. Raises PolyrhythmErrors for settings that the JOB does not have."""
        assert strategy is not None
        on, strategy = runtime(self.typed.where, seed), with_shares(strategy, self.typed.where.shares, self.typed.crew)
        train = with_settings(self.train, self.typed.job, settings)
        return PlannedRun(name, place, strategy, train, on, self.typed.crew, seed, {**self.facts, **notes})


@contextmanager
def prepared(given_options: Typed) -> Iterator[Prepared]:
    """The JOB as it was typed, imported; its file finds its own arguments in sys.argv for as long as this lasts.

    Raises PolyrhythmErrors for what cannot be used.
    """
    runtime(given_options.where, 0)
    with own_arguments(given_options.job, given_options.arguments):
        yield Prepared(given_options, load_workload(given_options.job), _facts(given_options))


@contextmanager
def own_arguments(job: str, given: Sequence[str]) -> Iterator[None]:
    """Let the file of `job` find `given` in sys.argv; a bundled workload has none, and takes none."""
    if not is_bundled(job):
        with arguments(str(file_of(job) or job.rpartition(":")[0]), given):
            yield
        return
    if given:
        raise WorkloadError(f"{job} is a bundled workload and takes no arguments, but {shlex.join(given)} was given: use --set KEY=VALUE.")
    yield


def _facts(given_options: Typed) -> dict[str, str]:
    """The JOB and the contents of all files that were named."""
    where, facts = given_options.where, {"job": given_options.job}
    if given_options.arguments:
        facts["arguments"] = shlex.join(given_options.arguments)
    module = sys.modules.get(given_options.job.rpartition(":")[0])
    job = file_of(given_options.job) or (Path(module.__file__) if module is not None and module.__file__ else None)
    own = {} if job is None else {"job sha256": sha256(job.read_bytes()).hexdigest()}
    return facts | own | file_facts(where)


def file_facts(where: RuntimeOptions) -> dict[str, str]:
    """The device that the options name, and the contents of their files."""
    network = None if where.network in (None, *PRESETS) else located(str(where.network), networks.FILE)
    files = {
        "network": [] if network is None else [network],
        "device": _device_files(where),
        "faults": [] if where.faults is None else [where.faults],
    }
    contents = {what: b"".join(file.read_bytes() for file in these) for what, these in files.items() if these}
    named = {} if where.device is None else {DEVICE: where.device}
    return named | {f"{what} sha256": sha256(content).hexdigest() for what, content in contents.items()}


def _device_files(where: RuntimeOptions) -> list[Path]:
    """The files of a simulated device; a real one has none."""
    return [] if where.device is None or settled(where).on != "simulator" else devices.files_of(where.device)


class Jobs:
    """Training functions."""

    counts: tuple[int, ...] = (2,)
    usual: str | None = "all"

    def settled(self, where: RuntimeOptions) -> RuntimeOptions:
        """As they are: there are several runtimes."""
        return where

    def unnamed(self, options: Mapping[str, str]) -> dict[str, Strategy | None]:
        """Never asked for: a JOB is run with a system."""
        return {}

    def fitting(self, strategies: Mapping[str, Strategy | None], given: Typed) -> dict[str, Strategy | None]:
        """The strategies without those that share memory, unless all workers are at one site."""
        places = runtime(given.where, 0).locations(given.workers)
        together = places is not None and len({location.site for location in places}) == 1
        return {name: each for name, each in strategies.items() if together or (each is not None and not each.shares_memory)}

    def prepared(self, given: Typed, metric: str) -> AbstractContextManager[Prepared]:
        """The JOB, imported."""
        return prepared(given)


_WRITER = {COMPARISON: "compare", RUN: "run"}

_PROBED_BYTES = 2**17
"""A disk that is full takes an empty file, but not this."""


def directory(out: Path | None, other: str = "", option: str = "--out") -> Path | None:
    """The directory of `option`, made if it is missing, before hours are spent on what could not be written there.

    Raises CompositionError too if the file `other` exists, the record of another command: of two, only one would be drawn.
    """
    if out is None:
        return None
    if other and (out / other).is_file():
        raise CompositionError(
            f"{option} {out} contains {other}, written by `polyrhythm {_WRITER[other]}`, and reports could not distinguish the two: "
            "give another directory, or remove that one."
        )
    try:
        out.mkdir(parents=True, exist_ok=True)
        probe = out / ".writable"
        try:
            probe.write_bytes(os.urandom(_PROBED_BYTES))
        finally:
            probe.unlink(missing_ok=True)
    except OSError as error:
        raise CompositionError(f"{option} {out} cannot be written to: {error.strerror}. Give another directory.") from None
    return out


def refuse_unwritable(file: Path | None, option: str) -> None:
    """Raise CompositionError for a file that cannot be written, before anything is computed for it; its folder is made if it is missing."""
    if file is None or (file.exists() and not file.is_file() and not file.is_dir()):  # such as /dev/stdout
        return
    if file.is_dir():
        raise CompositionError(f"{option} {file} is a folder: give a file.")
    directory(file.parent, option=option)
