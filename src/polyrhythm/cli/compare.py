"""`polyrhythm compare`: several systems train the same JOB in turn."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Annotated

import typer

from polyrhythm.cli.failures import guarded, say, tell
from polyrhythm.cli.options import DeviceName, Job, Json, NetworkName, On, Options, Out, Quiet, Seed, Settings, Workers

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from polyrhythm.cli.experiment import Experiment
    from polyrhythm.report.metrics import Target
    from polyrhythm.report.outcome import Outcome
    from polyrhythm.strategy.strategy import Strategy

Systems = Annotated[str, typer.Option("--systems", metavar="A,B,C|all", help="The systems, in the order of their runs.")]
Goal = Annotated[
    str | None, typer.Option("--to", metavar="METRIC=VALUE", help="Also say what each needed to get there, such as accuracy=0.96.")
]


@guarded
def compare(
    job: Job,
    systems: Systems = "all",
    workers: Workers = 2,
    on: On = "processes",
    network: NetworkName = None,
    device: DeviceName = None,
    seed: Seed = 0,
    settings: Settings = None,
    options: Options = None,
    target: Goal = None,
    out: Out = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Train JOB with each of several systems, same seed and settings, and put them beside one another."""
    from polyrhythm.cli.output import print_json, print_outcomes, reserved
    from polyrhythm.cli.pairs import pairs
    from polyrhythm.cli.prepare import Typed, directory, experiment
    from polyrhythm.cli.record import Comparison, keep
    from polyrhythm.errors import CompositionError
    from polyrhythm.report.metrics import parse_target

    strategies = _strategies(systems, pairs(options or [], "--option"))
    goal = parse_target(target) if target is not None else None
    typed = Typed(job, workers, on, network, device, seed, settings or [])
    with reserved(as_json):
        prepared = experiment(typed)
        kept = directory(out)
        outcomes = _run_all(prepared, strategies, kept, goal, not (as_json or quiet))
    comparison = Comparison(job, goal, [outcome.summary for outcome in outcomes])
    if as_json:
        print_json(comparison)
    else:
        print_outcomes(outcomes, goal)
    if kept is not None:
        words = ["polyrhythm", "compare", job, "--systems", systems, *typed.words(), *(["--to", target] if target else [])]
        again = shlex.join(words + [word for option in options or [] for word in ("--option", option)])
        try:
            say(f"the report is in {keep(comparison, outcomes, kept, again)}")
        except CompositionError as error:  # after the runs: they are not lost with it
            tell(error)
            raise typer.Exit(1) from None
    if all(outcome.summary.error is not None for outcome in outcomes) or any(outcome.remarks for outcome in outcomes):
        raise typer.Exit(1)


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


def _run_all(
    prepared: Experiment, strategies: dict[str, Strategy], kept: Path | None, goal: Target | None, watched: bool
) -> Sequence[Outcome]:
    """One run after the other; those that fail keep their row, and the others go on.

    Raises UnknownNameError after the first run that ended well, if that reported other metrics than the one of `goal`.
    """
    from polyrhythm.errors import unknown
    from polyrhythm.report.metrics import metrics_of
    from polyrhythm.report.progress import progress

    outcomes = []
    with progress(len(strategies), watched) as begin:
        for name, strategy in strategies.items():
            attempt = prepared.attempt(strategy, kept / name if kept is not None else None, begin(name))
            outcomes.append(attempt.outcome)
            for trouble in attempt.troubles:
                say(f"{name}: {trouble}")
            if attempt.error is not None:
                tell(attempt.error, name)
            elif goal is not None and goal.metric not in metrics_of([attempt.outcome]):
                raise unknown("metric that is reported", goal.metric, metrics_of([attempt.outcome]))
    return outcomes
