"""The runs of a comparison: planned, made one after the other or several at once, and taken from where they are already."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from polyrhythm.cli import resume
from polyrhythm.cli.crew import Crew
from polyrhythm.cli.failures import say, tell
from polyrhythm.cli.planned import COMMAND, Planned
from polyrhythm.cli.prepare import Prepared
from polyrhythm.cli.record import place
from polyrhythm.cli.tuning import Tuning, choices, judge
from polyrhythm.errors import unknown
from polyrhythm.report.metrics import Target, metrics_of
from polyrhythm.report.outcome import Outcome
from polyrhythm.report.progress import board, progress
from polyrhythm.strategy.strategy import Strategy
from polyrhythm.training.run import Attempt

Settings = Mapping[str, Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class Contest:
    """Several systems on one JOB: what they are, where their runs are kept, how many run at once, and the command that says so."""

    loaded: Prepared
    strategies: Mapping[str, Strategy]
    command: str
    out: Path | None = None
    jobs: int = 1
    goal: Target | None = None
    watched: bool = False

    def race(self, seeds: Sequence[int], settings: Settings) -> list[Outcome]:
        """Every system under every seed, with its own settings; those of one system come together, in the order of the seeds."""
        return self._make([self._plan(name, seed, seeds, settings[name]) for name in self.strategies for seed in seeds])

    def tune(self, grid: dict[str, list[str]], seed: int, settings: Settings) -> Tuning:
        """Every system with every combination of `grid`, on one seed."""
        tries = [(name, number, choice) for name in self.strategies for number, choice in enumerate(choices(grid))]
        plans = []
        for name, number, choice in tries:
            shown = f"{name} ({', '.join(f'{key}={value}' for key, value in choice.items())})"
            own = {**settings[name], **choice}
            plans.append(self.loaded.plan(shown, f"tuning/{name}/{number}", self.strategies[name], own, seed, self.command))
        outcomes = self._make(plans)
        return judge(grid, seed, [(name, outcome) for (name, _, _), outcome in zip(tries, outcomes, strict=True)], self.goal)

    def _plan(self, name: str, seed: int, seeds: Sequence[int], settings: Mapping[str, str]) -> Planned:
        shown = f"{name} (seed {seed})" if len(seeds) > 1 else name
        return self.loaded.plan(shown, place(name, seed, seeds), self.strategies[name], settings, seed, self.command)

    def _make(self, plans: Sequence[Planned]) -> list[Outcome]:
        made = _Made(plans, self.out, self.goal)
        made.take_kept()
        if self.jobs == 1:
            with progress(len(made.missing), self.watched) as begin:
                for number, plan, directory in made.missing:
                    made.add(number, plan.attempt(directory, begin(plan.name)))
        else:
            with board(len(made.missing), self.watched) as shown:
                Crew(self.jobs, shown, made.add).work(made.missing)
        return [made.outcomes[number] for number in range(len(plans))]


@dataclass(slots=True)
class _Made:
    """The outcomes of `plans` that are there, by their places."""

    plans: Sequence[Planned]
    out: Path | None
    goal: Target | None
    outcomes: dict[int, Outcome] = field(default_factory=dict)

    @property
    def missing(self) -> list[tuple[int, Planned, Path | None]]:
        """The runs that are still to be made, with their places and directories."""
        each = enumerate(self.plans)
        return [(number, plan, self._directory(plan)) for number, plan in each if number not in self.outcomes]

    def take_kept(self) -> None:
        """Take the runs that are in the directory already, and say so; say too which will be written over, and why."""
        for number, plan, directory in self.missing:
            if directory is None:
                continue
            found = resume.kept(plan, directory)
            if found is not None:
                self._put(number, found)
            elif (why := resume.difference(plan, directory)) is not None:
                say(f"{plan.name} is run again, though {directory} holds a run of it: {why}")
        if self.outcomes:
            say(f"{len(self.outcomes)} of {len(self.plans)} runs are taken from {self.out}, where they ended well with the same settings")

    def add(self, number: int, attempt: Attempt) -> None:
        """A run has ended. One that failed keeps its row, and the others go on.

        Raises UnknownNameError after a run that ended well, if that reported other metrics than the one of the goal.
        """
        self._put(number, attempt.outcome)
        for trouble in attempt.troubles:
            say(f"{self.plans[number].name}: {trouble}")
        if attempt.error is not None:
            tell(attempt.error, self.plans[number].name)
        elif self.goal is not None and self.goal.metric not in metrics_of([attempt.outcome]):
            raise unknown("metric that is reported", self.goal.metric, metrics_of([attempt.outcome]))

    def _put(self, number: int, outcome: Outcome) -> None:
        outcome.settings.pop(COMMAND, None)  # the record has it; a page tells it once, and it sets nothing
        self.outcomes[number] = outcome

    def _directory(self, plan: Planned) -> Path | None:
        return self.out / plan.place if self.out is not None else None
