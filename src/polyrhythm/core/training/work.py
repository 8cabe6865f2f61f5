"""A training function and the settings of its run, made into a job where its workers are.

`run` makes a `Training` for the runtime, and launchers continue it after a failure; `join` makes a job for its own process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from polyrhythm.core.checkpoints.plan import CheckpointPlan
from polyrhythm.core.checkpoints.request import Checkpoints
from polyrhythm.core.kernel.crew import FIXED, Crew
from polyrhythm.core.kernel.job import Job, WorkerContext
from polyrhythm.core.kernel.location import Location
from polyrhythm.core.kernel.message import Message
from polyrhythm.core.kernel.view import View
from polyrhythm.core.protocols.partition import WHOLE, ModelPartition
from polyrhythm.core.records.event_lines import encoded
from polyrhythm.core.simulator.threads import InThreads
from polyrhythm.core.strategy.service import Service
from polyrhythm.core.strategy.strategy import Strategy
from polyrhythm.core.strategy.strategy_plan import StrategyPlan
from polyrhythm.core.training.changing import LeftCrew, admitted
from polyrhythm.core.training.checkpoint_plan import newest, planned, under_way
from polyrhythm.core.training.part_context import context_of_part, refuse_in_parts
from polyrhythm.core.training.worker import Worker
from polyrhythm.errors import CheckpointError, CompositionError, PolyrhythmError, WorkloadError

Train = Callable[[Worker], object]


@dataclass(frozen=True, slots=True)
class Training:
    """`train` by `strategy`, where `available` workers may be. Raises CompositionError if the strategy cannot use them.

    It is `under_way` for a worker that joins others. `partition` says what each worker holds of a model.
    """

    train: Train
    strategy: Strategy
    available: Crew
    seed: int
    checkpoints: Checkpoints = field(default_factory=Checkpoints)
    timeline: bool = False
    circumstances: Mapping[str, str] = field(default_factory=dict)
    under_way: bool = False
    partition: ModelPartition = WHOLE

    def __post_init__(self) -> None:
        if not self.partition.shape.flat:
            refuse_in_parts(self.strategy, self.partition.shape, self.available)
            return
        for size in self.crew.sizes:
            self.strategy.check(size)

    @property
    def crew(self) -> Crew:
        """The available workers that the strategy uses."""
        shape = self.partition.shape
        if shape.loses:
            return self.available
        least, most = (shape.workers(self.strategy.workers, number) for number in (self.available.least, self.available.most))
        return self.available.within(least, most)

    @property
    def workers(self) -> int:
        """The number of workers with which it begins."""
        return self.crew.first

    @property
    def resumable(self) -> bool:
        """True if the run has a directory for checkpoints."""
        return self.checkpoints.directory is not None

    def job(self, locations: Sequence[Location]) -> Job:
        """The job for a runtime, with the checkpoints found. Raises CompositionError and CheckpointError for settings that do not fit."""
        shape = self.partition.shape
        plan = replace(StrategyPlan.of(self.strategy, locations[: self.workers], self.seed, shape=shape), batch=self.crew.rule)
        return make_job(self.train, plan, self._checkpoints(plan), self.timeline, self.crew, self.partition)

    def _checkpoints(self, plan: StrategyPlan) -> CheckpointPlan:
        if self.under_way:
            return under_way(self.checkpoints, self.circumstances)
        return planned(plan, self.checkpoints, self.circumstances)

    def continued(self) -> Training:
        """The same training, resumed from its newest checkpoint; started as before where there is none yet."""
        written = newest(self.checkpoints)
        return self if written is None else replace(self, checkpoints=replace(self.checkpoints, resume=True))

    def joined(self) -> Training:
        """The same training for a worker that joins it under way."""
        return replace(self, under_way=True)


_TRANSLATED = {
    "empty parameter list": "The model has no parameters, so there is nothing to train: give the optimizer a model that has.",
    "Default process group has not been initialized": (
        "torch.distributed was called and has no process group in a training function: use worker.barrier(), worker.mean(...), "
        "worker.any(...) or worker.broadcast(...), which work in every runtime."
    ),
}
"""Messages of torch's errors that are raised before our own checks, and the messages that replace them."""

_SKIPPED = (
    "The run was resumed, and skips the data that were used before the checkpoint was written. Passes that are over "
    "have no batches now: write `for epoch in worker.epochs(n):`, which begins with the epoch of the checkpoint, or give names "
    "that are used after a pass a value before it."
)
_NOT_THERE = (
    "{} has joined the run, and has no batches until it has come to where the others are: where a value is missing for that reason, write "
    "`for epoch in worker.epochs(n):`, which begins with their epoch, give names that are used after a pass a value before it, and "
    "worker.keep(...) the objects that it needs of the others."
)


def make_job(
    train: Train,
    plan: StrategyPlan,
    chosen: CheckpointPlan | None = None,
    timeline: bool = False,
    crew: Crew = FIXED,
    partition: ModelPartition = WHOLE,
) -> Job:
    """The job for a runtime: a training function under a strategy; with a `timeline`, ports record details."""
    checkpoints = chosen or CheckpointPlan()

    def program(whole: WorkerContext) -> Message:
        whole.port.details = timeline
        context = context_of_part(whole, plan.mesh)
        joins = not View.of(plan.mesh.members).present(context.port.name)
        local = partition.at(whole, plan.mesh)
        own = Worker(context, *(admitted(context, plan, checkpoints) if joins else (plan, checkpoints)), crew=crew, local=local)
        try:
            with _explained(own, context.port.name if joins else ""):
                train(own)
        except LeftCrew:
            return departure(own)
        finally:
            own.close()
        return conclusion(own)

    def service(port: Any, record: Any) -> Any:
        port.details, port.incarnation = timeline, checkpoints.incarnation
        return Service(plan, port, record, checkpoints, crew).live()

    return Job(
        len(plan.mesh.members),
        len(plan.servers),
        program,
        service,
        plan.essential,
        plan.mesh.seed,
        plan.groups,
        plan.colocated,
        checkpoints.began,
        timeline,
        checkpoints.grace,
        crew,
        InThreads() if plan.mesh.cut else None,
        plan.mesh.lines,
    )


@contextmanager
def _explained(own: Worker, newcomer: str) -> Iterator[None]:
    """Raise errors of the training function again, with a remedy for those that come from being run by this library.

    `newcomer` is the name of a worker that has joined the run.
    """
    try:
        yield
    except CheckpointError as error:
        if not newcomer:
            raise
        raise WorkloadError(
            f"{newcomer} has joined the run, and cannot continue from the state of the worker that was there: its training function must "
            f"make the same models, optimizers and objects for worker.keep(...). As for a resumed run: {error}"
        ) from error
    except (ArithmeticError, LookupError, NameError, StopIteration, TypeError, ValueError) as error:
        if own.returning and not isinstance(error, PolyrhythmError):
            if not newcomer:
                raise WorkloadError(f"{type(error).__name__}: {error}. {_SKIPPED}") from error
            error.add_note(_NOT_THERE.format(newcomer))
        _translate(error)
        raise
    except RuntimeError as error:
        _translate(error)
        raise


def _translate(error: Exception) -> None:
    for torchs, ours in _TRANSLATED.items():
        if torchs in str(error):
            raise CompositionError(ours) from error


def departure(own: Worker) -> Message:
    """The counts of a worker that has left before the end."""
    return Message("result", (float(own.clock), float(own.samples), 0.0), encoded({"names": [], "metrics": {}}).decode())


def conclusion(own: Worker) -> Message:
    """A worker's result: counts, metrics, and from worker 0 the final weights. Of a model in parts its first worker has the samples."""
    own.finish()
    weights = own.weights() if own.has_result else {}
    text = encoded({"names": list(weights), "metrics": own.metrics}).decode()
    samples = float(own.samples) if own.counts_samples else 0.0
    return Message("result", (float(own.clock), samples, own.seconds_aside), text, tuple(weights.values()))
