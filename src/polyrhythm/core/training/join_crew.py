"""Join a crew that changes, from a script that somebody has started; `join` calls it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

from polyrhythm.core.checkpoints.plan import CheckpointPlan
from polyrhythm.core.checkpoints.request import Checkpoints
from polyrhythm.core.kernel.agreement import Facts
from polyrhythm.core.kernel.crew import Crew
from polyrhythm.core.kernel.stopping import StopSignals, tell
from polyrhythm.core.processes.rendezvous.crew_entrance import CrewEntrance, enter_crew
from polyrhythm.core.processes.rendezvous.crew_place import here
from polyrhythm.core.processes.rendezvous.join import JoinedRun, Joining
from polyrhythm.core.processes.transport.wire import VERSION
from polyrhythm.core.protocols.metrics_logger import MetricsLogger
from polyrhythm.core.records.directory import make
from polyrhythm.core.records.outcome import Outcome, Summary
from polyrhythm.core.records.progress import ignore
from polyrhythm.core.strategy.strategy import Strategy
from polyrhythm.core.strategy.strategy_plan import StrategyPlan
from polyrhythm.core.training.changing import admitted
from polyrhythm.core.training.checkpoint_plan import described
from polyrhythm.core.training.led_by_workers import refuse_led_by_workers
from polyrhythm.core.training.log import Log
from polyrhythm.core.training.membership import Membership
from polyrhythm.core.training.work import make_job
from polyrhythm.core.training.worker import Worker
from polyrhythm.errors import CompositionError, Stopped

WORKERS = "POLYRHYTHM_WORKERS"


def given_crew(workers: int | tuple[int, int] | Crew | None) -> Crew | None:
    """The crew that was given, or that POLYRHYTHM_WORKERS names; None where there is neither. Raises CompositionError for no numbers."""
    if workers is not None:
        return Crew.of(workers)
    return Crew.parse(os.environ[WORKERS]) if os.environ.get(WORKERS) else None


def join_crew(
    strategy: Strategy,
    crew: Crew,
    seed: int,
    directory: str | Path | None,
    joining: Joining,
    checkpoints: Checkpoints,
    loggers: Sequence[MetricsLogger],
) -> Worker:
    """Make this process a worker of a run of `crew`, whose first member it finds at MASTER_ADDR, or is.

    Raises CompositionError for what such a run cannot have.
    """
    refuse_led_by_workers(strategy, crew)
    if checkpoints.directory is not None or checkpoints.resume:
        raise CompositionError(
            "A run that processes join while it goes on writes no checkpoints: leave them out, or give one number of workers. A worker "
            "that joins has the state of those who are there."
        )
    place, signals, log, name = here(), StopSignals().install(), None, "this process"
    try:
        founders = crew.least if crew.start is None else crew.start
        entrance = enter_crew(place, founders, _facts(strategy, crew, seed), joining.startup, joining.bind)
        name = entrance.name
        try:
            log = _log(strategy, entrance, seed, directory, loggers)
            plan = replace(StrategyPlan.of(strategy, entrance.founders, seed), batch=crew.rule)
            job = replace(make_job(elsewhere, plan, crew=crew), began=entrance.answer.seconds)
            joined = JoinedRun(job, log.record, entrance, joining)
        except BaseException:
            entrance.close()
            raise
        membership, chosen = Membership(joined, log, signals, {}), CheckpointPlan()
        try:
            if entrance.newcomer:
                plan, chosen = admitted(joined.context, plan, chosen)
            worker = Worker(joined.context, plan, chosen, membership.leave, crew)
        except BaseException as problem:
            joined.fail(problem)
            raise
    except BaseException as problem:
        if log is not None:
            log.fail(problem, name)
        signals.restore()
        if isinstance(problem, Stopped):
            tell(problem, name)
        raise
    membership.of(worker)
    return worker


def elsewhere(worker: Worker) -> None:
    """No runtime calls it: the script itself is the program."""


def _facts(strategy: Strategy, crew: Crew, seed: int) -> Facts:
    """What all must have been started with."""
    return {
        **described(strategy),
        "seed": str(seed),
        "workers": str(crew),
        "batch": crew.batch,
        "version of Polyrhythm": version("polyrhythm"),
        "version of the wire format": str(VERSION),
    }


def _log(strategy: Strategy, entrance: CrewEntrance, seed: int, directory: str | Path | None, loggers: Sequence[MetricsLogger]) -> Log:
    """The record of this worker, in the directory of its name."""
    summary = Summary(strategy.name, len(entrance.founders), "processes", None, seed)
    outcome = Outcome(summary, settings={"strategy": repr(strategy)})
    own = None if directory is None else make(directory) / entrance.name.replace("/", "-")
    return Log(outcome, own, ignore, () if entrance.newcomer or entrance.client else loggers)
