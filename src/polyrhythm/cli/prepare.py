"""From what was typed to runs that can be made: everything that can be refused is refused here, before anything runs."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from polyrhythm.cli.planned import COMMAND, Planned
from polyrhythm.cli.runtimes import choose, runtime
from polyrhythm.errors import CompositionError, WorkloadError
from polyrhythm.hardware import devices
from polyrhythm.hardware import network as networks
from polyrhythm.hardware.files import located
from polyrhythm.hardware.presets import PRESETS
from polyrhythm.strategy.strategy import Strategy
from polyrhythm.workloads.load import file_of, is_bundled, load
from polyrhythm.workloads.script import arguments
from polyrhythm.workloads.settings import Train, with_settings


@dataclass(frozen=True, slots=True)
class Typed:
    """The options that commands share, as they were typed; `on` is the runtime that was meant."""

    job: str
    arguments: Sequence[str]
    workers: int
    on: str
    network: str | None
    device: str | None

    def words(self) -> list[str]:
        """The shared options as words of a command that would do the same again."""
        named = [("--workers", self.workers), ("--on", self.on), ("--network", self.network), ("--device", self.device)]
        return [word for flag, value in named if value is not None for word in (flag, str(value))]

    def command(self, verb: str, *words: str) -> str:
        """The whole command line, with `words` besides."""
        tail = ["--", *self.arguments] if self.arguments else []
        return shlex.join(["polyrhythm", verb, self.job, *words[:2], *self.words(), *words[2:], *tail])


def typed(job: str, given: Sequence[str] | None, workers: int, on: str | None, hardware: tuple[str | None, str | None]) -> Typed:
    """What was typed, its runtime chosen; `hardware` is the network and the device."""
    network, device = hardware
    if workers < 1:
        raise CompositionError(f"--workers {workers} trains nothing: give 1 or more.")
    return Typed(job, tuple(given or ()), workers, choose(on, network, device), network, device)


@dataclass(frozen=True, slots=True)
class Prepared:
    """A JOB that was loaded; `facts` are what its runs depend on and their records would not tell."""

    typed: Typed
    train: Train
    facts: Mapping[str, str]

    def plan(self, name: str, place: str, strategy: Strategy, settings: Mapping[str, Any], seed: int, command: str) -> Planned:
        """One run of it. Raises PolyrhythmErrors for settings that the JOB does not have."""
        on = runtime(self.typed.on, self.typed.network, self.typed.device, seed)
        train = with_settings(self.train, self.typed.job, settings)
        return Planned(name, place, strategy, train, on, self.typed.workers, seed, {**self.facts, COMMAND: command})


@contextmanager
def prepared(asked: Typed) -> Iterator[Prepared]:
    """The JOB as it was typed, imported; its file finds its own arguments in sys.argv for as long as this lasts.

    Raises PolyrhythmErrors for what cannot be used.
    """
    runtime(asked.on, asked.network, asked.device, 0)
    with own_arguments(asked.job, asked.arguments):
        yield Prepared(asked, load(asked.job), _facts(asked))


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


def _facts(asked: Typed) -> dict[str, str]:
    """The JOB and the contents of all files that were named."""
    facts = {"job": asked.job}
    if asked.arguments:
        facts["arguments"] = shlex.join(asked.arguments)
    module = sys.modules.get(asked.job.rpartition(":")[0])
    files = {
        "job": file_of(asked.job) or (Path(module.__file__) if module is not None and module.__file__ else None),
        "network": None if asked.network in (None, *PRESETS) else located(str(asked.network), networks.FILE),
        "device": None if asked.device in (None, *devices.DEVICES) else located(str(asked.device), devices.FILE),
    }
    return facts | {f"{what} sha256": sha256(file.read_bytes()).hexdigest() for what, file in files.items() if file is not None}


_PROBED_BYTES = 2**17
"""A disk that is full takes an empty file, but not this."""


def directory(out: Path | None) -> Path | None:
    """`--out`, made if it is missing, before hours are spent on what could not be written there."""
    if out is None:
        return None
    try:
        out.mkdir(parents=True, exist_ok=True)
        probe = out / ".writable"
        try:
            probe.write_bytes(os.urandom(_PROBED_BYTES))
        finally:
            probe.unlink(missing_ok=True)
    except OSError as error:
        raise CompositionError(f"--out {out} cannot be written to: {error.strerror}. Give a directory of your own.") from None
    return out
