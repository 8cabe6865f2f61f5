"""The options of `polyrhythm calibrate` for timing steps, and the lines that say how far the measuring of a network is."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from polyrhythm.tools.cli.failures import notice

if TYPE_CHECKING:
    from polyrhythm.core.strategy.strategy import Strategy
    from polyrhythm.tools.measuring.links import Follow

STEPS = 30
_EVERY = 15.0
"""Seconds between two lines about how far the measuring of the network is."""


@dataclass(frozen=True, slots=True)
class TimingOptions:
    """The options for timing steps, as they were typed; None and empty for those that were not."""

    system: str | None
    workers: int | None
    steps: int | None
    seed: int | None
    settings: list[str]
    options: list[str]

    @property
    def strategy(self) -> Strategy | None:
        """That of the system, with its options. Raises PolyrhythmErrors for options that cannot be."""
        from polyrhythm.errors import CompositionError
        from polyrhythm.tools.cli.pairs import pairs
        from polyrhythm.tools.cli.presets import compose

        if self.options and self.system is None:
            raise CompositionError("--option needs a --system, and none was given: name the system, or leave the option out.")
        return None if self.system is None else compose(self.system, pairs(self.options, "--option"))

    def numbers(self) -> tuple[int, int, int]:
        """How many workers, steps, and the seed. Raises CompositionError for numbers that time nothing."""
        from polyrhythm.errors import CompositionError

        workers, steps = 1 if self.workers is None else self.workers, STEPS if self.steps is None else self.steps
        if workers < 1 or steps < 1:
            raise CompositionError(f"--workers {workers} --steps {steps} times nothing: give 1 or more of each.")
        return workers, steps, self.seed or 0

    def refuse_without(self, job: str | None) -> None:
        """Raise CompositionError for what was given to time steps of no JOB."""
        from polyrhythm.errors import CompositionError

        if job is None and (given := self.given()):
            raise CompositionError(
                f"{given[0]} needs a JOB whose steps are timed, and none was given: give a JOB, or leave {given[0]} out."
            )

    def given(self) -> list[str]:
        """The names of those that were."""
        flags = {"--system": self.system, "--workers": self.workers, "--steps": self.steps, "--seed": self.seed}
        named = [flag for flag, value in flags.items() if value is not None]
        return named + ["--set"] * bool(self.settings) + ["--option"] * bool(self.options)


def link_progress() -> Follow:
    """Says every now and then how many pairs of hosts are measured: each is measured alone, so that many take long."""
    last = time.monotonic()

    def show_progress(done: int, pairs: int) -> None:
        nonlocal last
        if time.monotonic() - last >= _EVERY:
            notice(f"{done} of {pairs} links are measured")
            last = time.monotonic()

    return show_progress
