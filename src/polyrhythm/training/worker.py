"""What a training function is given."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sized
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from polyrhythm import rng
from polyrhythm.checkpoints.checkpoint import Manifest
from polyrhythm.checkpoints.plan import CheckpointPlan
from polyrhythm.errors import WorkloadError, diverged
from polyrhythm.kernel.events import Reported, Stepped
from polyrhythm.kernel.job import WorkerContext
from polyrhythm.strategy.replica import Replica
from polyrhythm.strategy.strategy_plan import StrategyPlan
from polyrhythm.training.checkpoint_plan import manifest_of
from polyrhythm.training.checkpointing import Checkpointing
from polyrhythm.training.data import Batches, Data, StreamBatches
from polyrhythm.training.evaluation import Evaluate
from polyrhythm.training.models import Models
from polyrhythm.training.numbers import number
from polyrhythm.training.sampling import ShareSampler
from polyrhythm.training.stream import StreamShard
from polyrhythm.training.together import Together
from polyrhythm.training.user_collectives import SurvivorCollectives, TreeCollectives
from polyrhythm.training.worker_state import WorkerState

Model = TypeVar("Model", bound=nn.Module)
Optimizer = TypeVar("Optimizer", bound=torch.optim.Optimizer)
Value = TypeVar("Value")


class Worker:
    """One of `workers` that train one model together; the same in both runtimes.

    `rank` counts from 0; `device` is where the model should live ("cpu", "cuda:0"); `seed` is the run's. The global random
    generators of torch, numpy and `random` are seeded for this worker before the training function begins.
    """

    def __init__(self, context: WorkerContext, plan: StrategyPlan, checkpoints: CheckpointPlan | None = None) -> None:
        group, strategy = plan.group(context.port.name), plan.strategy
        self.rank = group.rank
        self.workers = group.size
        self.seed = group.seed
        self.device = context.device
        self._context = context
        self._strategy = strategy
        self._group = group
        self._models = Models(plan, context)
        survives = strategy.tolerates_loss
        collective = SurvivorCollectives(context.port, group, self._models.losses) if survives else TreeCollectives(context.port, group)
        self._together = Together(collective, group, context.perform)
        self._plan = plan
        chosen = checkpoints or CheckpointPlan()
        self._state = WorkerState(context, self._models.replicas, chosen.resumed, self._between)
        self._data = Data(strategy.shuffle, group, self.count, self._state.position)
        self._batch = 0
        self._finished = False
        rng.seed_everything(group.seed, "worker", group.rank)
        self._checkpointing = Checkpointing(chosen, context, group, self._state, self._manifest)
        self._checkpointing.begin(self._models.follow_losses)

    def attach(
        self, model: Model, optimizer: Optimizer, *, clip_norm: float | None = None, name: str | None = None
    ) -> tuple[Model, Optimizer]:
        """Put the strategy behind `optimizer.step()`; every worker then begins with the weights of worker 0.

        Returns the same two objects. `clip_norm` clips the gradient that the optimizer will see to that norm: the merged one where
        workers exchange gradients among themselves, each worker's own where it steps locally or where a server has the optimizer.
        (clip_grad_norm_ before step() always clips the worker's own.) A parameter that nobody has a gradient for keeps none, where codecs
        send gradients as they are; else it counts as zero. Frozen parameters and buffers begin as those of worker 0 too, and are
        not exchanged in training; buffers are averaged when the run finishes, unless the strategy's `buffers` say otherwise.

        May be called again before the first step, for another model, or for another optimizer of the same model: each has steps of its
        own. `name` is what its weights' names begin with in the result of several models; the number of the call by default. Every
        trainable parameter of the models must be in one of the optimizers. Raises CompositionError for a model or an optimizer that the
        strategy cannot hold, WorkloadError when training has begun.
        """
        if self._finished:
            raise WorkloadError("worker.attach was called after worker.finish(): the run is over; attach every model at the beginning.")
        self._models.attach(model, optimizer, clip_norm, name, self._step)
        self._state.resume_replica()
        self._checkpointing.last = self.clock
        return model, optimizer

    def keep(self, **objects: Any) -> None:
        """Have checkpoints hold objects of your own by name: `worker.keep(scheduler=scheduler, average=average)`.

        Each has `state_dict()` and `load_state_dict(state)`, as learning-rate schedulers do; its state is made of numbers, text, tensors,
        and lists, tuples and dicts of them. Call it after `attach`, at every worker. In a run that is resumed they get their state back
        at once, and again when the data have come to where the broken-off run was. Raises WorkloadError for an object without these
        methods, CheckpointError for one that the checkpoint does not have.
        """
        for name, kept in objects.items():
            self._state.keep(name, kept)

    def save(self) -> bool:
        """Write a checkpoint now; whether it is kept. Every worker calls it after the same step, at the end of an iteration of its loop.

        What cannot be written ends no run, but there is a RecordWarning. Once a worker has ended or is lost, no more are written. Raises
        WorkloadError where the run has no directory for checkpoints.
        """
        if self._checkpointing.plan.store is None:
            raise WorkloadError(
                "worker.save() has nowhere to write to: give the run a directory, with pr.run(checkpoint=...), pr.join(checkpoint=...) or "
                "--checkpoint."
            )
        return self._checkpointing.save(self.clock)

    def _between(self) -> None:
        """A batch is requested, and those before it have been used."""
        if self._checkpointing.due(self.clock):
            self._checkpointing.save(self.clock)

    def _manifest(self, step: int) -> Manifest:
        return manifest_of(self._plan, step, self._context.port.now())

    def _step(self, replica: Replica) -> None:
        """What stands behind `optimizer.step()`."""
        if self._finished:
            raise WorkloadError("optimizer.step() was called after worker.finish(): the run is over, and nobody answers any more.")
        self._models.check()
        self._data.warn_if_unused()
        self._context.charge(self._batch)
        self._models.evaluation.look()
        replica.step()
        self._state.samples += self._batch
        self._batch = 0
        self._context.record(
            Stepped(self._context.port.now(), self._context.port.name, self.clock, self._state.samples, self._context.bytes_sent)
        )
        self._models.evaluation.stepped(self.clock)
        if not self._state.position.under_way:
            self._between()

    def batches(self, dataset: Any, batch_size: int | None = None) -> Batches | StreamBatches:
        """This worker's batches: an epoch each time they are iterated, disjoint from the other workers', equally many for all.

        `dataset` is a map-style Dataset or a tuple of tensors, in a new order each epoch; a DataLoader, which is kept to: its sampler
        says the order, its processes load; or a stream (an IterableDataset, an iterator), which every worker reads whole. `batch_size`
        counts samples per worker and step: the loader's own if it is left out, else 32. `len()` is the number of batches, but for
        streams. Raises DataError for data that cannot be shared out.
        """
        return self._data.batches(dataset, batch_size, self._context.port, self._context.perform)

    def sampler(self, dataset: Sized, shuffle: bool = True) -> ShareSampler:
        """This worker's indices of `dataset`, for a DataLoader of one's own: equally many at every worker, a new order at each pass.

        Each index that is drawn counts as a sample of the next step. Raises DataError for data that cannot be shared out.
        """
        return self._data.sampler(dataset, shuffle)

    def shard(self, iterable: Iterable[Any]) -> StreamShard:
        """This worker's elements of any iterable, files or batches or samples: rank, rank + workers, …, equally many for all.

        It is an IterableDataset, which the processes of a DataLoader share. Every worker iterates the whole, which must be the same at
        all: seed what it draws with `seed`. Nothing is counted: say with `count` how many samples a step uses.
        """
        return self._data.shard(iterable)

    def report(self, **metrics: float | Tensor) -> None:
        """Put numbers, or tensors of one element, on record: `worker.report(loss=loss, accuracy=accuracy)`.

        The last ones are the run's final metrics. Raises DivergedError for a metric that is not finite, WorkloadError for what is
        no number.
        """
        values = {name: number(f"worker.report got {name} =", value) for name, value in metrics.items()}
        for name, value in values.items():
            if not math.isfinite(value):
                raise diverged(f"{self._context.port.name} reports {name} = {value} after step {self.clock}")
        if self._state.position.returning:  # the broken-off run has reported this
            return
        self._state.metrics |= values
        self._context.record(Reported(self._context.port.now(), self._context.port.name, self.clock, values, self._context.bytes_sent))

    def evaluate(self, function: Evaluate) -> None:
        """Have `function(model)` say how good the result is, at the moments of a grid that is the same for every run.

        It is given the attached models, in the order of attaching, and returns metrics by name: `{"accuracy": 0.97}`, each a float or a
        tensor of one element. It is called at worker 0 when the training is over, without gradients and with the models in evaluation
        mode, on weights that were kept meanwhile: what servers held, the mean of replicas that gossip, or what all had agreed on.
        Afterwards weights, buffers, modes and random streams are as if it had not been called. That takes no virtual time, no bytes, and
        is not in the run's seconds. The metrics of the final weights become the run's.

        Moments are 1 ms after the beginning, and then 9 % later each. Floating-point buffers, such as batch norm's statistics, are those
        of the step that was under way at the moment, as its forward pass left them: their mean over workers, or worker 0's where buffers
        are not averaged; all others are the final ones. Copies of the weights take 1 GB at most for each call of `attach`, over all who
        keep some, and those of buffers as much again: moments are left out for that, and of what is larger only the end is evaluated.

        Every worker must call it, before the first step. Raises WorkloadError if that is over, and at the first step CompositionError at
        all workers if only some called it.
        """
        if self._models.checked:
            raise WorkloadError("worker.evaluate was called after the first step: call it before training begins.")
        self._models.evaluation.ask(function)

    @property
    def seconds_aside(self) -> float:
        """Seconds of the run's clock that went into evaluating after the training."""
        return self._models.evaluation.seconds

    def finish(self) -> None:
        """Merge what is outstanding: afterwards the model holds the run's final weights. Called for you when `train` returns."""
        if not self._models.replicas:
            raise WorkloadError("The training function never called worker.attach(model, optimizer), so nothing was trained together.")
        if not self._finished:
            self._finished = True
            self._checkpointing.end(self.clock)
            self._state.metrics |= self._models.finish()

    def close(self) -> None:
        """End the processes that load for this worker and persist between epochs. Called for you when `train` ends, well or not."""
        self._data.close()

    @property
    def finished(self) -> bool:
        """Whether `finish` was called."""
        return self._finished

    @property
    def clock(self) -> int:
        """Steps that this worker has taken; of several models, those of the one that took most."""
        return max((replica.clock for replica in self._models.replicas), default=0)

    def barrier(self) -> None:
        """Wait until every worker has called it. In this and the following, a worker that the run goes on without is left out."""
        self._together.barrier()

    def mean(self, value: float | Tensor) -> Any:
        """The mean of every worker's `value`, the same at all: a float of numbers, a tensor of tensors."""
        return self._together.mean(value)

    def any(self, value: object) -> bool:
        """Whether `value` is true at one worker or more: `if worker.any(loss < 0.1): break` ends the loop at all of them."""
        return self._together.any(value)

    def broadcast(self, value: Value) -> Value:
        """Worker 0's `value` at every worker: a tensor, or numbers, text, bytes, None, and lists, tuples and dicts of them.

        Raises WorkloadError for what would not come out as it is.
        """
        return self._together.broadcast(value)

    def print(self, *values: object) -> None:
        """Print at worker 0 only."""
        if self.rank == 0:
            print(*values)

    def count(self, samples: int) -> None:
        """Count `samples` samples as used by the next step, for training functions that do not use `batches` or `sampler`."""
        self._batch += samples
        self._data.used = True

    @property
    def overlaps(self) -> bool:
        """Whether gradients are exchanged from `backward()` on, and not in `optimizer.step()` alone."""
        return any(replica.overlaps for replica in self._models.replicas)

    @property
    def attached(self) -> tuple[Replica, ...]:
        """The replicas as they are, for those who watch a run or build on it; after `finish` they hold the final weights."""
        return tuple(self._models.replicas)

    @property
    def samples(self) -> int:
        """Samples that this worker's steps have used."""
        return self._state.samples

    @property
    def metrics(self) -> dict[str, float]:
        """The latest reported value of each metric."""
        return dict(self._state.metrics)

    def weights(self) -> dict[str, Tensor]:
        """The final parameters and buffers by name, on the CPU, each in memory of its own; calls `finish`."""
        self.finish()
        return self._models.weights()
