"""From what was typed to an experiment: everything that can be refused is refused here, before anything runs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from polyrhythm.cli.experiment import Experiment
from polyrhythm.cli.pairs import pairs
from polyrhythm.cli.runtimes import runtime
from polyrhythm.errors import CompositionError
from polyrhythm.workloads import load


@dataclass(frozen=True, slots=True)
class Typed:
    """The shared options as they were typed."""

    job: str
    workers: int
    on: str
    network: str | None
    device: str | None
    seed: int
    settings: Sequence[str]

    def words(self) -> list[str]:
        """The shared options as words of a command that would do the same again."""
        named = [
            ("--workers", self.workers),
            ("--on", self.on),
            ("--network", self.network),
            ("--device", self.device),
            ("--seed", self.seed),
        ]
        given = [word for flag, value in named if value is not None for word in (flag, str(value))]
        return given + [word for setting in self.settings for word in ("--set", setting)]


def experiment(typed: Typed) -> Experiment:
    """The experiment that was typed; imports the JOB file. Raises PolyrhythmErrors for what cannot be used."""
    if typed.workers < 1:
        raise CompositionError(f"--workers {typed.workers} trains nothing: give 1 or more.")
    chosen = runtime(typed.on, typed.network, typed.device, typed.seed)
    train = load(typed.job, pairs(typed.settings, "--set"))
    return Experiment(train, chosen, typed.workers, typed.seed)


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
