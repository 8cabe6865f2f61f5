"""Run one training function on many workers.

Users call `run`; the command line, the planner and the measurements call `attempt`, which returns failed runs too.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from polyrhythm.core.checkpoints.request import Checkpoints, given_checkpoints
from polyrhythm.core.job_files.script import refuse_while_imported
from polyrhythm.core.kernel.crew import Crew
from polyrhythm.core.kernel.events import Overwritten, Recorder
from polyrhythm.core.kernel.job import Ending, Runtime
from polyrhythm.core.kernel.seat import refuse_within_program
from polyrhythm.core.kernel.stopping import stoppable, stops_reported
from polyrhythm.core.processes import Processes
from polyrhythm.core.protocols.metrics_logger import MetricsLogger
from polyrhythm.core.protocols.partition import WHOLE, ModelPartition
from polyrhythm.core.records.outcome import Outcome, Summary
from polyrhythm.core.records.progress import Watch, ignore, progress
from polyrhythm.core.records.unfinished import passed
from polyrhythm.core.settings import shown, whole_number
from polyrhythm.core.strategy.strategy import Strategy
from polyrhythm.core.tensors import digest
from polyrhythm.core.training.checkpoint_plan import CHANGED, recorded_checkpoints
from polyrhythm.core.training.circumstances import LAYOUT, circumstances
from polyrhythm.core.training.layouts import Strategies, given_partition, given_strategy
from polyrhythm.core.training.led_by_workers import refuse_led_by_workers
from polyrhythm.core.training.log import Log, break_off
from polyrhythm.core.training.result import Run
from polyrhythm.core.training.work import Train, Training
from polyrhythm.errors import CompositionError, PolyrhythmError, RecordWarning, ResumedWarning, RunError, WorkloadError
from polyrhythm.partition.cut import Cut
from polyrhythm.partition.mesh import Mesh


@dataclass(frozen=True, slots=True)
class Attempt:
    """A finished or failed run: its outcome so far, the error that ended it, if any, and the parts of its record that are not written."""

    outcome: Outcome
    error: PolyrhythmError | None = None
    troubles: list[str] = field(default_factory=list)

    def completed(self) -> Outcome:
        """The outcome of a run that ended well. Raises the error that ended another one."""
        if self.error is not None:
            raise self.error
        return self.outcome


def run(
    train: Train,
    *,
    workers: int | tuple[int, int] | Crew | None = None,
    mesh: Mesh | None = None,
    cut: Cut | None = None,
    strategy: Strategies = "allreduce",
    on: Runtime | None = None,
    seed: int | None = None,
    directory: str | Path | None = None,
    checkpoints: Checkpoints | None = None,
    loggers: Sequence[MetricsLogger] = (),
    timeline: bool = False,
) -> Run:
    """Run `train(worker)` once in every worker, and return the result.

    `workers` is their number, 2 by default, or two, (2, 8), for a crew that changes while the run goes on, and begins with the most; a
    `Crew` says more. `strategy` is a published system's name or a composition of your own; `on` the runtime, `Processes()` by default;
    `seed` the root of all random streams, the runtime's own by default. With a `directory`, a record is created there at the start and
    events are written as they happen; if something cannot be written, the run continues and a RecordWarning is issued.

    With a `mesh` the workers are on named axes, `pr.Mesh(site=2, dp=2, tp=2)`, and their number is that of the mesh. Along the axes that
    `cut` names they hold the parts of one model, which are divided as it says; along the others are replicas. `strategy` is then among all
    replicas, or one for each of these axes: `{"site": "diloco", "dp": "allreduce"}`.

    `checkpoints` are where the state of the whole run is written, and from which of them it continues. In a resumed run `train` is called
    again, and `worker.batches` yields the batches that were not yet used. It ends with the same bits as an uninterrupted run if results do
    not depend on the order in which messages arrive.

    SIGTERM, SIGHUP and SIGQUIT end a run as Ctrl-C does, unless the program has its own handlers: the record says so, no process is
    left, and the exception `Stopped`, a KeyboardInterrupt and a SystemExit, ends the program with exit code 128 plus the signal's number.
    With `checkpoints` the first SIGTERM or SIGHUP has a last checkpoint written.

    What is measured goes to `loggers` too, as it comes (`CSV`, `TensorBoard`, `WandB`, `MLflow`); one that fails is left out, with a
    RecordWarning. With a `timeline`, every message and the phases of every tensor's exchange are recorded too, for `Run.trace`: that may be
    millions of events. If stderr is a terminal, a progress line is shown. Raises PolyrhythmErrors only, and KeyboardInterrupt.
    """
    refuse_while_imported("pr.run")
    partition, number = given_partition(mesh, cut, strategy, workers)
    chosen = given_strategy(strategy, partition)
    with stops_reported(), progress(1, wanted=True) as begin:
        watch = begin(chosen.name)
        tried = attempt(
            train,
            workers=number,
            strategy=chosen,
            on=on,
            seed=seed,
            directory=directory,
            watch=watch,
            checkpoints=checkpoints,
            loggers=loggers,
            timeline=timeline,
            partition=partition,
        )
    if changed := tried.outcome.settings.get(CHANGED):
        warnings.warn(changed, ResumedWarning, stacklevel=2)
    for trouble in tried.troubles:
        warnings.warn(trouble, RecordWarning, stacklevel=2)
    return Run(tried.completed())


def attempt(
    train: Train,
    *,
    workers: Any,
    strategy: Strategy,
    on: Runtime | None = None,
    seed: int | None = None,
    directory: str | Path | None = None,
    watch: Watch = ignore,
    notes: Mapping[str, str] | None = None,
    checkpoints: Checkpoints | None = None,
    loggers: Sequence[MetricsLogger] = (),
    timeline: bool = False,
    partition: ModelPartition = WHOLE,
) -> Attempt:
    """Run `train` as `run` does, and return a failed run too, with its events so far; `watch` is called with each event as it happens, and
    `notes` are recorded among the run's settings.

    Raises PolyrhythmErrors for a run that cannot be started.
    """
    refuse_within_program("pr.run")
    crew = Crew.of(workers)
    if not isinstance(loggers, (list, tuple)) or not all(callable(getattr(each, "open", None)) for each in loggers):
        raise CompositionError(f"loggers={shown(loggers)} is no list of loggers: give such as loggers=[pr.loggers.CSV('metrics.csv')].")
    if not callable(train):
        raise WorkloadError(f"{train!r} cannot be called: give a function train(worker), or use load_workload for a bundled one.")
    if on is not None and (isinstance(on, type) or not isinstance(on, Runtime)):
        raise CompositionError(f"on={on!r} is not a runtime: give pr.Processes() or pr.Simulator(network=...).")
    runtime = on if on is not None else Processes()
    root = whole_number("seed", runtime.seed if seed is None else seed, "0 or another 64-bit integer")
    wanted = given_checkpoints(checkpoints)
    here = circumstances(train, " ".join(filter(None, (runtime.kind, runtime.network_name))))
    if not partition.shape.flat:
        here[LAYOUT] = repr(partition)
    training, places = Training(train, strategy, crew, root, wanted, timeline, here, partition=partition), runtime.locations(crew.most)
    if places is None and not crew.fixed:
        refuse_led_by_workers(strategy, training.crew)
    work = training if places is None else training.job(places)  # checks come before a record is started
    summary = Summary(str(strategy.name), training.workers, runtime.kind, runtime.network_name, root)
    notes = {**recorded_checkpoints(wanted, strategy, training.workers, here), **(notes or {})}
    outcome = Outcome(summary, settings=recorded_settings(train, strategy, runtime, notes))
    with stoppable():
        return carry_out(lambda record: runtime.execute(work, record), Log(outcome, directory, watch, loggers, wanted))


def carry_out(execute: Callable[[Recorder], Ending], log: Log) -> Attempt:
    """Call `execute`, which runs until it ends, fails or is interrupted; its record is completed in every case."""
    error: PolyrhythmError | None = None
    try:
        conclude(log.outcome, execute(log.record))
    except PolyrhythmError as problem:
        error = problem
    except Exception as problem:  # of the system: no process, no memory, no file left
        error = RunError(f"The run failed: {type(problem).__name__}: {problem}".rstrip(": "))
        error.__cause__ = problem
    except BaseException as interruption:
        log.fail(interruption)
        log.warn()
        raise
    if error is not None:
        break_off(log.outcome, error)
    log.close()
    return Attempt(log.outcome, error, log.troubles)


def recorded_settings(train: Train, strategy: Strategy, runtime: Runtime, notes: Mapping[str, str]) -> dict[str, str]:
    """The settings of a run, as its record shows them."""
    name = getattr(train, "__qualname__", "") or _shown(train)
    return {"strategy": _shown(strategy), "runtime": _shown(runtime), "train": name, **notes}


def _shown(value: object) -> str:
    """`value` as the record shows it."""
    try:
        return repr(value)
    except Exception as problem:
        raise WorkloadError(
            f"{type(value).__name__} cannot be shown in the run's record, because its repr() raises {problem!r}."
        ) from problem


def conclude(outcome: Outcome, ending: Ending, reporter: str = "") -> None:
    """Complete `outcome` from the `ending` of the run; metrics and weights are those of the worker `reporter`, by default the first."""
    summary, results = outcome.summary, {name: result for name, result in ending.results.items() if result is not None}
    first = results[reporter or ending.first]
    content = msgspec.json.decode(first.text)
    outcome.weights = dict(zip(content["names"], first.tensors, strict=True))
    summary.final = content["metrics"]
    summary.weights_sha256 = digest(outcome.weights.items()) if outcome.weights else None
    summary.steps = int(max(result.numbers[0] for result in results.values()))
    summary.samples = int(sum(result.numbers[1] for result in results.values()))
    summary.bytes_sent, summary.messages_sent, summary.lost = ending.bytes_sent, ending.messages_sent, ending.lost
    summary.bytes_between_sites = ending.bytes_between_sites
    overwritten = [event for event in outcome.events if isinstance(event, Overwritten)]
    outcome.settings |= ending.notes
    if overwritten:
        summary.row_writes, summary.lost_writes = sum(e.writes for e in overwritten), sum(e.lost for e in overwritten)
    outcome.state = "ended"
    passed(outcome, ending.seconds if summary.on == "simulator" else max(0.0, ending.seconds - first.numbers[2]))
