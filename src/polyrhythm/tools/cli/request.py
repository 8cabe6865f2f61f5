"""The request for a comparison, from the typed options; contradictions are refused before the JOB is loaded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from polyrhythm.core.processes.system.linux import require_linux
from polyrhythm.core.records.metrics import Target, parse_target
from polyrhythm.core.strategy.strategy import Strategy
from polyrhythm.errors import CompositionError, unknown
from polyrhythm.systems import SYSTEMS
from polyrhythm.tools.cli.fairness import BATCH, deal_settings, parse_seeds
from polyrhythm.tools.cli.kinds import ALL, Kind, Loaded
from polyrhythm.tools.cli.options import repeated
from polyrhythm.tools.cli.pairs import pairs
from polyrhythm.tools.cli.prepare import Typed
from polyrhythm.tools.cli.presets import compose, deal, options_noted
from polyrhythm.tools.cli.tuning import APART, choices, parse_grid
from polyrhythm.tools.cli.variants import Variant
from polyrhythm.tools.pools import pools


@dataclass(frozen=True, slots=True)
class ComparisonOptions:
    """The options that only a comparison has, as they were typed; None and empty for those that were not."""

    systems: str | None
    seed: int | None = None
    seeds: str | None = None
    global_batch: int | None = None
    settings: Sequence[str] = ()
    options: Sequence[str] = ()
    tune: Sequence[str] = ()
    tune_seed: int | None = None
    target: str | None = None
    jobs: int = 1
    jobs_on: str = pools.HOST

    def as_arguments(self) -> list[str]:
        """The options as arguments of a command, without those that do not affect the comparison."""
        named = [("--seed", self.seed), ("--seeds", self.seeds), ("--global-batch", self.global_batch)]
        named += [("--tune-seed", self.tune_seed), ("--to", self.target)]
        arguments = [part for flag, value in named if value is not None for part in (flag, str(value))]
        return arguments + repeated("--set", self.settings) + repeated("--option", self.options) + repeated("--tune", self.tune)


@dataclass(frozen=True, slots=True)
class Rules:
    """The seeds of the comparison, the grid to tune, and the seed to tune it on."""

    seeds: list[int]
    grid: dict[str, list[str]]
    tune_seed: int


@dataclass(frozen=True, slots=True)
class Request:
    """A comparison that can be made, as far as that is known without the JOB."""

    typed: Typed
    given: ComparisonOptions
    strategies: Mapping[str, Strategy | None]
    rules: Rules
    goal: Target | None

    def command(self) -> str:
        """The command line that makes the same comparison again."""
        systems = [] if self.given.systems is None else ["--systems", self.given.systems]
        return self.typed.command("compare", before=systems, after=self.given.as_arguments())

    def options_noted(self, system: str) -> dict[str, str]:
        """The note in a record with the options that the system was given; none where scripts run without one."""
        if self.strategies[system] is None:
            return {}
        return options_noted(system, deal(pairs(self.given.options, "--option"), list(self.strategies))[system])

    def settings(self, loaded: Loaded) -> dict[str, dict[str, str]]:
        """The settings of each system; those that contradict one another are refused, and those that the JOB does not have."""
        own, total = deal_settings(pairs(self.given.settings, "--set"), list(self.strategies)), self.given.global_batch
        for name, settings in own.items():
            if twice := settings.keys() & self.rules.grid.keys():
                raise CompositionError(f"--set and --tune both give {min(twice)} to {name}: leave one of them out.")
            if total is not None and BATCH in settings.keys() | self.rules.grid.keys():
                raise CompositionError(f"--global-batch {total} decides {BATCH}, which {name} was given too: leave one of them out.")
        if total is not None:
            shares = loaded.share_batch(total, self.strategies)
            own = {name: settings | shares[name] for name, settings in own.items()}
        for settings in own.values():
            for choice in choices(self.rules.grid):
                loaded.check(settings | choice)
        return own


def requested(kind: Kind, several: Sequence[Variant], whole: Typed, given: ComparisonOptions) -> Request:
    """The comparison that was typed, of which `whole` is for `several` machines. Raises PolyrhythmErrors for what cannot be."""
    options = pairs(given.options, "--option")
    named = kind.usual if given.systems is None else given.systems
    strategies: Mapping[str, Strategy | None] = kind.unnamed(options) if named is None else _strategies(named, options)
    if named == ALL:
        for each in several:
            strategies = kind.fitting(strategies, each.typed)
    _check_jobs(given, whole.where.on)
    rules, goal = _rules(given), parse_target(given.target) if given.target is not None else None
    if len(several) > 1 and (rules.grid or given.global_batch is not None):
        flag = "--tune" if rules.grid else "--global-batch"
        raise CompositionError(f"{flag} is for one network, device and number of workers, and there are several: compare them apart.")
    return Request(whole, given, strategies, rules, goal)


def _rules(given: ComparisonOptions) -> Rules:
    if given.seed is not None and given.seeds is not None:
        raise CompositionError(f"--seed {given.seed} and --seeds {given.seeds} were both given: leave one of them out.")
    seeds = parse_seeds(given.seeds) if given.seeds is not None else [given.seed or 0]
    grid = parse_grid(given.tune)
    if given.tune_seed is not None and not grid:
        raise CompositionError(f"--tune-seed {given.tune_seed} was given without --tune: leave it out, or give --tune lr=0.01,0.02.")
    apart = given.tune_seed if given.tune_seed is not None else seeds[0] + APART
    if grid and apart in seeds:
        raise CompositionError(
            f"The tuning seed {apart} is also a seed of the comparison, which would favour tuning: give another --tune-seed."
        )
    return Rules(seeds, grid, apart)


def _check_jobs(given: ComparisonOptions, on: str | None) -> None:
    jobs = given.jobs
    pools.check(given.jobs_on)
    if jobs < 1:
        raise CompositionError(f"--jobs {jobs} runs nothing: give 1 or more.")
    if jobs == 1:
        return
    if on != "simulator":
        raise CompositionError(
            f"--jobs {jobs} is for the simulator: real runs share the cores of their machines, so parallel ones would slow each other "
            "down and their times would be wrong. Leave it out, or give --on simulator."
        )
    require_linux(f"--jobs {jobs}", "leave it out, and the runs are made one after the other,")


def _strategies(systems: str, options: Mapping[str, str]) -> dict[str, Strategy]:
    """The strategies by the names in `systems`, each with those of `options` that it has."""
    names = list(SYSTEMS) if systems == ALL else list(dict.fromkeys(name.strip() for name in systems.split(",") if name.strip()))
    if not names:
        raise CompositionError(f"--systems {systems!r} names no system: write names with commas between, or all.")
    for name in names:
        if name not in SYSTEMS:
            raise unknown("system", name, SYSTEMS)
    dealt = deal(options, names)
    return {name: compose(name, dealt[name]) for name in names}
