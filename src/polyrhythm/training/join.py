"""Join a run from a script that was started by torchrun, SLURM, Ray, Kubernetes or by hand."""

from __future__ import annotations

import atexit
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from polyrhythm import systems
from polyrhythm.checkpoints.request import CheckpointRequest
from polyrhythm.errors import CompositionError
from polyrhythm.kernel.names import worker as name_of
from polyrhythm.loggers.protocol import MetricsLogger
from polyrhythm.processes.rendezvous.join import JoinedRun, Joining, enter
from polyrhythm.processes.rendezvous.locations import locate
from polyrhythm.processes.rendezvous.rank_environment import find_rank_environment
from polyrhythm.processes.runtime.stall_detection import Patience
from polyrhythm.processes.system.linux import require_linux
from polyrhythm.report.directory import make
from polyrhythm.report.outcome import Outcome, Summary
from polyrhythm.report.progress import ignore
from polyrhythm.strategy.strategy import Strategy
from polyrhythm.strategy.strategy_plan import StrategyPlan
from polyrhythm.training.checkpoint_plan import described, planned
from polyrhythm.training.log import Log
from polyrhythm.training.run import conclude, whole_number
from polyrhythm.training.work import conclusion, make_job
from polyrhythm.training.worker import Worker
from polyrhythm.workloads.script import refuse_while_imported


def join(
    strategy: str | Strategy = "allreduce",
    *,
    seed: int = 0,
    directory: str | Path | None = None,
    timeout: float | None = None,
    checkpoint: str | Path | None = None,
    every: int | None = None,
    keep: int = 2,
    resume: bool | str | Path = False,
    loggers: Sequence[MetricsLogger] = (),
) -> Worker:
    """Make this process a worker of a run; its rank and the number of workers come from torchrun's or SLURM's variables.

    Returns when all processes have joined. The script then trains as a training function does, and leaves the run when it ends; call
    `worker.finish()` before you use the final weights. With a `directory`, this worker's record is written to `directory`/worker-RANK from
    the beginning, as by `run`. A script succeeds by reaching its end or by `sys.exit(0)`, and then waits for the others; if it fails,
    all others fail too, with an error that names it. After waiting `timeout` seconds for a worker that makes no progress, the run stops
    with an error that names it; without a timeout this is only reported on stderr. `checkpoint`, `every`, `keep` and `resume` are those of
    `run`; all hosts must share the directory. Worker 0 has the `loggers`, as those of `run`. Raises CompositionError if the number of
    processes is not what the strategy uses, or if their settings differ; RunError if the others do not join.
    """
    require_linux("join(), which makes a worker of this process,")
    refuse_while_imported("pr.join")
    chosen, seed = systems.resolve(strategy), whole_number("seed", seed, "the same at all ranks")
    wanted = CheckpointRequest(checkpoint, every, keep, resume)
    place = find_rank_environment()
    used = chosen.workers(place.workers)
    if used != place.workers:
        raise CompositionError(f"{chosen.name} uses {used} workers, but {place.workers} processes were started: start {used}.")
    outcome = Outcome(Summary(chosen.name, used, "processes", None, seed), settings={"strategy": repr(chosen)})
    log = Log(outcome, None if directory is None else make(directory) / f"worker-{place.rank}", ignore, () if place.rank else loggers)
    try:
        plan = StrategyPlan.of(chosen, locate(place), seed)
        checkpoints = planned(plan, wanted)
        facts = {**described(chosen), "resumed from": "" if checkpoints.resumed is None else checkpoints.resumed.path.name}
        joining = Joining(patience=Patience(timeout=timeout), facts=facts)
        joined = enter(make_job(_elsewhere, plan, checkpoints), log.record, place, joining)
    except BaseException as problem:
        log.fail(problem, name_of(place.rank))
        raise
    worker = Worker(joined.context, plan, checkpoints)
    atexit.register(_leave, worker, joined, log)
    return worker


def _elsewhere(worker: Worker) -> None:
    """No runtime calls it: the script itself is the program."""


def _leave(worker: Worker, joined: JoinedRun, log: Log) -> None:
    """At the script's end; after a failure there is nothing to conclude, and the other workers are notified."""
    worker.close()
    name = joined.context.port.name
    ending = joined.end(worker.finished, partial(conclusion, worker), lambda problem: log.fail(problem, name))
    if ending is not None:
        conclude(log.outcome, ending, name)
        log.close()
        log.warn()
