"""Take part in a run from a script that torchrun, SLURM, Ray, Kubernetes or a person started."""

from __future__ import annotations

import atexit
import sys
from pathlib import Path

from polyrhythm import systems
from polyrhythm.errors import CompositionError
from polyrhythm.kernel.events import AnyEvent
from polyrhythm.kernel.message import Message
from polyrhythm.pieces.terms import Place
from polyrhythm.processes.join import JoinedStage, enter
from polyrhythm.processes.linux import require_linux
from polyrhythm.processes.place import find_place
from polyrhythm.report.outcome import Outcome, Summary
from polyrhythm.strategy.strategy import Strategy
from polyrhythm.training.run import conclude, conclusion, make_job
from polyrhythm.training.worker import Worker


def join(strategy: str | Strategy = "allreduce", *, seed: int = 0, directory: str | Path | None = None) -> Worker:
    """The worker that this process is: rank and number come from torchrun's or SLURM's variables.

    Returns when all have come. The script then trains as a training function does, and leaves the run when it ends; call
    `worker.finish()` before you use the final weights. With a `directory`, this worker's record is saved in `directory`/worker-RANK.
    Raises CompositionError where fewer or more processes were started than the strategy uses, RunError if the others do not come.
    """
    require_linux("join(), which makes a worker of this process,")
    chosen = systems.resolve(strategy)
    place = find_place()
    job = make_job(_elsewhere, chosen, place.workers, seed)
    if job.workers != place.workers:
        raise CompositionError(f"{chosen.name} uses {job.workers} of {place.workers} workers: start as many processes as it uses.")
    events: list[AnyEvent] = []
    stage = enter(job, events.append, place)
    worker = Worker(stage, chosen, Place(place.rank, place.workers, seed))
    outcome = Outcome(Summary(chosen.name, job.workers, "processes", None, seed), events, settings={"strategy": repr(chosen)})
    atexit.register(_leave, worker, stage, outcome, None if directory is None else Path(directory))
    return worker


def _elsewhere(worker: Worker) -> None:
    raise NotImplementedError("the script itself is the program")


def _leave(worker: Worker, stage: JoinedStage, outcome: Outcome, directory: Path | None) -> None:
    """At the script's end: nothing after an exception, for then the others must learn that this worker failed."""
    if getattr(sys, "last_value", None) is not None or stage.failure is not None:
        stage.abandon()
        return
    result: Message = conclusion(worker)
    ending = stage.leave(result)
    if directory is not None:
        conclude(outcome, ending, stage.port.name)
        outcome.save(directory / f"worker-{worker.rank}")
