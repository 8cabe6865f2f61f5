"""`polyrhythm compare`: several systems train the same JOB, in turn or several at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from polyrhythm.cli.complete import complete_systems
from polyrhythm.cli.failures import guarded, say, tell
from polyrhythm.cli.options import Arguments, DeviceName, Job, Json, NetworkName, On, Options, Out, Quiet, Workers, repeated

if TYPE_CHECKING:
    from polyrhythm.cli.prepare import Prepared
    from polyrhythm.strategy.strategy import Strategy

Systems = Annotated[
    str,
    typer.Option("--systems", metavar="A,B,C|all", help="The systems, in the order of their runs.", autocompletion=complete_systems),
]
Goal = Annotated[
    str | None, typer.Option("--to", metavar="METRIC=VALUE", help="Also say what each needed to get there, such as accuracy=0.96.")
]
OneSeed = Annotated[int | None, typer.Option("--seed", metavar="S", help="The root of every random stream; 0 if not given.")]
Seeds = Annotated[
    str | None,
    typer.Option("--seeds", metavar="A..B|A,B,C", help="Run each system under each of these seeds; tables show medians and ranges."),
]
Batch = Annotated[
    int | None,
    typer.Option("--global-batch", metavar="N", help="Samples of a step of all workers together: sets batch_size to N / workers."),
]
Tune = Annotated[
    list[str] | None,
    typer.Option("--tune", metavar="KEY=A,B,C", help="Try every system with each of these values first; may be repeated, for a product."),
]
TuneSeed = Annotated[
    int | None, typer.Option("--tune-seed", metavar="S", help="The seed of --tune; if not given, 1000 more than the first of the others.")
]
Jobs = Annotated[int, typer.Option("--jobs", metavar="N", help="Simulator: how many runs at once, each on a core of its own.")]
Each = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="[SYSTEM.]KEY=VALUE", help="A setting of the JOB, for all or for one system: lr=0.1, ssp.lr=0.02; may be repeated."
    ),
]


@guarded
def compare(
    job: Job,
    arguments: Arguments = None,
    systems: Systems = "all",
    workers: Workers = 2,
    on: On = None,
    network: NetworkName = None,
    device: DeviceName = None,
    seed: OneSeed = None,
    seeds: Seeds = None,
    global_batch: Batch = None,
    settings: Each = None,
    options: Options = None,
    tune: Tune = None,
    tune_seed: TuneSeed = None,
    target: Goal = None,
    jobs: Jobs = 1,
    out: Out = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Train JOB with each of several systems, with the same seeds and settings, and put them beside one another."""
    from polyrhythm.cli.contest import Contest
    from polyrhythm.cli.output import print_grid, print_json, print_outcomes, reserved
    from polyrhythm.cli.pairs import pairs
    from polyrhythm.cli.prepare import directory, prepared, typed
    from polyrhythm.cli.record import Comparison, keep
    from polyrhythm.cli.tuning import chosen, grid_of
    from polyrhythm.errors import CompositionError
    from polyrhythm.report.metrics import parse_target

    strategies = _strategies(systems, pairs(options or [], "--option"))
    goal = parse_target(target) if target is not None else None
    asked = typed(job, arguments, workers, on, (network, device))
    rules = _rules(seed, seeds, tune, tune_seed)
    _check_jobs(jobs, asked.on)
    named = [("--seed", seed), ("--seeds", seeds), ("--global-batch", global_batch), ("--tune-seed", tune_seed), ("--to", target)]
    words = [word for flag, value in named if value is not None for word in (flag, str(value))]
    words += [*repeated("--set", settings), *repeated("--option", options), *repeated("--tune", tune)]
    command = asked.command("compare", "--systems", systems, *words)
    with reserved(as_json), prepared(asked) as loaded:
        own = _settings(loaded, strategies, pairs(settings or [], "--set"), global_batch, rules)
        contest = Contest(loaded, strategies, command, directory(out), jobs, goal, not (as_json or quiet))
        tuning = contest.tune(rules.grid, rules.tune_seed, own) if rules.grid else None
        if tuning is not None:
            own = {name: {**own[name], **best} for name, best in chosen(tuning).items()}
        outcomes = contest.race(rules.seeds, own)
    comparison = Comparison(
        job, goal, [outcome.summary for outcome in outcomes], rules.seeds, own if any(own.values()) else {}, tuning, command
    )
    if as_json:
        print_json(comparison)
    else:
        if tuning is not None:
            print_grid(grid_of(tuning))
        print_outcomes(outcomes, goal)
    if out is not None:
        try:
            say(f"the report is in {keep(comparison, outcomes, out)}")
        except CompositionError as error:  # after the runs: they are not lost with it
            tell(error)
            raise typer.Exit(1) from None
    if all(outcome.summary.error is not None for outcome in outcomes) or any(outcome.remarks for outcome in outcomes):
        raise typer.Exit(1)


@dataclass(frozen=True, slots=True)
class _Rules:
    """The seeds of the comparison, the grid to tune, and the seed to tune it on."""

    seeds: list[int]
    grid: dict[str, list[str]]
    tune_seed: int


def _rules(seed: int | None, seeds: str | None, tune: Sequence[str] | None, tune_seed: int | None) -> _Rules:
    from polyrhythm.cli.fairness import parse_seeds
    from polyrhythm.cli.tuning import APART, parse_grid
    from polyrhythm.errors import CompositionError

    if seed is not None and seeds is not None:
        raise CompositionError(f"--seed {seed} and --seeds {seeds} were both given: leave one of them out.")
    listed = parse_seeds(seeds) if seeds is not None else [seed or 0]
    grid = parse_grid(tune or [])
    if tune_seed is not None and not grid:
        raise CompositionError(
            f"--tune-seed {tune_seed} is for --tune, and nothing is to be tuned: leave it out, or give --tune lr=0.01,0.02."
        )
    apart = tune_seed if tune_seed is not None else listed[0] + APART
    if grid and apart in listed:
        raise CompositionError(f"The tuning seed {apart} is one of the comparison's, and is not to be: give another --tune-seed.")
    return _Rules(listed, grid, apart)


def _check_jobs(jobs: int, on: str) -> None:
    from polyrhythm.errors import CompositionError

    if jobs < 1:
        raise CompositionError(f"--jobs {jobs} runs nothing: give 1 or more.")
    if jobs > 1 and on == "processes":
        raise CompositionError(
            f"--jobs {jobs} is for the simulator: real processes share the cores of this machine, so that runs at once would slow each "
            "other down and their times mean nothing. Leave it out, or give --on simulator."
        )


def _settings(
    loaded: Prepared, strategies: Mapping[str, Strategy], given: Mapping[str, str], global_batch: int | None, rules: _Rules
) -> dict[str, dict[str, str]]:
    """The settings of each system; those that contradict one another are refused, and those that the JOB does not have."""
    from polyrhythm.cli.fairness import BATCH, deal_settings, share_batch
    from polyrhythm.cli.tuning import choices
    from polyrhythm.errors import CompositionError
    from polyrhythm.workloads.settings import with_settings

    own = deal_settings(given, list(strategies))
    for name, settings in own.items():
        if twice := settings.keys() & rules.grid.keys():
            raise CompositionError(f"--set and --tune both give {min(twice)} to {name}: leave one of them out.")
        if global_batch is not None and BATCH in settings.keys() | rules.grid.keys():
            raise CompositionError(f"--global-batch {global_batch} decides {BATCH}, which {name} was given too: leave one of them out.")
    if global_batch is not None:
        shares = share_batch(global_batch, loaded.train, strategies, loaded.typed.workers)
        own = {name: settings | shares[name] for name, settings in own.items()}
    for settings in own.values():
        for choice in choices(rules.grid):
            with_settings(loaded.train, loaded.typed.job, settings | choice)
    return own


def _strategies(systems: str, options: dict[str, str]) -> dict[str, Strategy]:
    """The strategies by the names in `systems`, each with those of `options` that it has."""
    from polyrhythm.cli.presets import compose, deal
    from polyrhythm.errors import CompositionError, unknown
    from polyrhythm.systems import SYSTEMS

    names = list(SYSTEMS) if systems == "all" else list(dict.fromkeys(name.strip() for name in systems.split(",") if name.strip()))
    if not names:
        raise CompositionError(f"--systems {systems!r} names no system: write names with commas between, or all.")
    for name in names:
        if name not in SYSTEMS:
            raise unknown("system", name, SYSTEMS)
    dealt = deal(options, names)
    return {name: compose(name, dealt[name]) for name in names}
