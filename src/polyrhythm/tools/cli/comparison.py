"""The runs of a comparison: planned, made one after the other or several at once, and taken from where they are already."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path

from polyrhythm.core.records.job_output import Headed, JobOutput, kept_out, to_stderr
from polyrhythm.core.records.metrics import Target, metrics_of
from polyrhythm.core.records.outcome import Outcome
from polyrhythm.core.records.progress import board, progress
from polyrhythm.core.training.run import Attempt
from polyrhythm.errors import RunError, unknown
from polyrhythm.tools.cli import resume
from polyrhythm.tools.cli.failures import notice, show_error
from polyrhythm.tools.cli.kinds import Loaded
from polyrhythm.tools.cli.planned_run import COMMAND, Planned
from polyrhythm.tools.cli.record import ComparisonRecord, place, tuning_place
from polyrhythm.tools.cli.request import Request
from polyrhythm.tools.cli.tuning import Tuning, choices, chosen, judge
from polyrhythm.tools.pools.pools import HOST, pool_of

Settings = Mapping[str, Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class ComparisonResult:
    """A comparison that was made, the outcomes of its runs, and those of the runs that tuned it."""

    comparison: ComparisonRecord
    outcomes: list[Outcome]
    tried: list[Outcome]


@dataclass(frozen=True, slots=True)
class SystemComparison:
    """Several systems on one JOB or script: what was requested, what was loaded, for each variant of the machines by its label, where the
    runs are kept, and whether progress is shown."""

    request: Request
    loaded: Mapping[str, Loaded]
    out: Path | None = None
    watched: bool = False

    def make(self, settings: Settings) -> ComparisonResult:
        """Tune what is to be tuned, and run every system under every seed with its own `settings` and the best that were found."""
        tuning, tried = self._tune(settings) if self.request.rules.grid else (None, [])
        best = {name: {} for name in settings} if tuning is None else chosen(tuning)
        own = {name: {**settings[name], **best.get(name, {})} for name in settings}
        outcomes, places = self._race(own, {name for name in settings if name not in best})
        shown_settings = own if any(own.values()) else {}
        summaries = [outcome.summary for outcome in outcomes]
        request = self.request
        command = request.command()
        comparison = ComparisonRecord(
            request.typed.job, request.goal, summaries, request.rules.seeds, shown_settings, tuning, command, places
        )
        return ComparisonResult(comparison, outcomes, tried)

    def _tune(self, settings: Settings) -> tuple[Tuning, list[Outcome]]:
        """Every system with every combination of the grid, on one seed."""
        rules = self.request.rules
        tries = [(name, choice) for name in settings for choice in choices(rules.grid)]
        plans = []
        for name, choice in tries:
            shown = f"{name} ({', '.join(f'{key}={value}' for key, value in choice.items())})"
            plans.append(self._plan("", name, shown, tuning_place(name, choice), {**settings[name], **choice}, rules.tune_seed))
        outcomes = self._make(plans)
        named = [(name, outcome) for (name, _), outcome in zip(tries, outcomes, strict=True)]
        return judge(rules.grid, rules.tune_seed, named, self.request.goal), outcomes

    def _race(self, settings: Settings, unfit: set[str]) -> tuple[list[Outcome], list[str]]:
        """Every system under every seed, and the places of these runs; those of one system come together, in the order of the seeds. No run
        is made of the `unfit`."""
        seeds = self.request.rules.seeds
        plans = []
        for variant, name, seed in product(self.loaded, settings, seeds):
            parts = [*([variant] if variant else []), *([f"seed {seed}"] if len(seeds) > 1 else [])]
            shown = f"{name} ({', '.join(parts)})" if parts else name
            plans.append((name, self._plan(variant, name, shown, place(name, seed, variant), settings[name], seed)))
        made = iter(self._make([plan for name, plan in plans if name not in unfit]))
        untried = RunError("It was not run, because no choice of --tune ended well: widen the grid.")
        for name in settings:
            if name in unfit:
                show_error(untried, name)
        outcomes = [next(made) if name not in unfit else plan.failed(untried).outcome for name, plan in plans]
        return outcomes, [plan.place for _, plan in plans]

    @property
    def _virtual(self) -> bool:
        return self.request.typed.where.on == "simulator"  # the workers of real runs print as their user has them do

    def _plan(self, variant: str, system: str, shown: str, where: str, settings: Mapping[str, str], seed: int) -> Planned:
        request = self.request
        notes = {**request.options_noted(system), COMMAND: request.command()}
        return self.loaded[variant].plan(shown, where, request.strategies[system], settings, seed, notes)

    def _make(self, plans: Sequence[Planned]) -> list[Outcome]:
        made = _Outcomes(plans, self.out, self.request.goal)
        made.take_kept()
        jobs = self.request.given.jobs
        if jobs == 1 and self.request.given.jobs_on == HOST:
            output = JobOutput(Headed(to_stderr()))
            with progress(len(made.missing), self.watched) as begin:
                for number, plan, directory in made.missing:
                    with kept_out(output) if self._virtual else nullcontext():
                        attempt = plan.attempt(directory, begin(plan.name))
                    made.add(number, attempt)
        else:
            pool = pool_of(self.request.given.jobs_on)
            with board(len(made.missing), self.watched) as shown:
                pool(jobs, shown, made.add).work(made.missing)
        return [made.outcomes[number] for number in range(len(plans))]


@dataclass(slots=True)
class _Outcomes:
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
        """Take the runs that are in the directory already, and report them; report too which will be overwritten, and why.

        Raises UnknownNameError as `add` does.
        """
        for number, plan, directory in self.missing:
            if directory is None:
                continue
            found = resume.kept(plan, directory)
            if found is not None:
                self._put(number, found)
            elif (why := resume.difference(plan, directory)) is not None:
                notice(f"{plan.name} is run again, though {directory} holds a run of it: {why}")
        if self.outcomes:
            notice(f"{self.out} holds {len(self.outcomes)} of {len(self.plans)} runs, ended well with the same settings: taken from there")

    def add(self, number: int, attempt: Attempt) -> None:
        """A run has ended. One that failed keeps its row, and the others continue.

        Raises UnknownNameError after a run that ended well, if that reported other metrics than the one of the goal.
        """
        for trouble in attempt.troubles:
            notice(f"{self.plans[number].name}: {trouble}")
        if attempt.error is not None:
            show_error(attempt.error, self.plans[number].name)
        self._put(number, attempt.outcome)

    def _put(self, number: int, outcome: Outcome) -> None:
        if self.goal is not None and outcome.summary.error is None and self.goal.metric not in (there := metrics_of([outcome])):
            raise unknown("metric that is reported", self.goal.metric, there)
        outcome.settings.pop(COMMAND, None)  # the record has it; a page shows it once, and it is not a setting
        self.outcomes[number] = outcome

    def _directory(self, plan: Planned) -> Path | None:
        return self.out / plan.place if self.out is not None else None
