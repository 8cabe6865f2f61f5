"""What the runs of one command have in common, and one try of one system at it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from polyrhythm.cli.failures import sentence
from polyrhythm.errors import PolyrhythmError
from polyrhythm.kernel.events import AnyEvent, Stepped
from polyrhythm.kernel.job import Runtime
from polyrhythm.report.outcome import Outcome, Summary
from polyrhythm.strategy.strategy import Strategy
from polyrhythm.training.run import Train, run

Watch = Callable[[AnyEvent], None]


@dataclass(frozen=True, slots=True)
class Attempt:
    """What came of a run: its outcome, as far as it got, and the error that ended it, if one did."""

    outcome: Outcome
    error: PolyrhythmError | None = None


@dataclass(frozen=True, slots=True)
class Experiment:
    """The same training function, runtime, number of workers and seed for every system. `network` is its name, in the simulator."""

    train: Train
    on: Runtime
    network: str | None
    workers: int
    seed: int

    def attempt(self, name: str, strategy: Strategy, directory: Path | None, watch: Watch) -> Attempt:
        """Run `strategy` under `name`, keeping its record in `directory`."""
        events: list[AnyEvent] = []

        def see(event: AnyEvent) -> None:
            events.append(event)
            watch(event)

        try:
            done = run(
                self.train,
                workers=self.workers,
                strategy=strategy,
                on=self.on,
                seed=self.seed,
                directory=directory,
                name=name,
                watch=see,
            )
        except PolyrhythmError as error:
            return Attempt(self._broken_off(name, events, error), error)
        return Attempt(done.outcome)

    def _broken_off(self, name: str, events: list[AnyEvent], error: PolyrhythmError) -> Outcome:
        """The outcome of a run that failed: what its events say of it."""
        summary = Summary(name, self.workers, self.on.kind, self.network, self.seed, error=sentence(error))
        latest = {event.actor: event for event in events if isinstance(event, Stepped)}
        summary.steps = max((event.clock for event in latest.values()), default=0)
        summary.samples = sum(event.samples for event in latest.values())
        end = max((event.time for event in events), default=0.0)
        if summary.on == "simulator":
            summary.virtual_seconds = end
        else:
            summary.seconds = end
        return Outcome(summary, events)
