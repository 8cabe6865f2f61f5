"""The `worker` argument of a training function.

`work.make_job` makes one for each worker of a run, `join` one for its process; training functions and integrations call it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sized
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from polyrhythm.core import rng
from polyrhythm.core.catalogue import DenseRows
from polyrhythm.core.checkpoints.manifest import Manifest
from polyrhythm.core.checkpoints.plan import CheckpointPlan
from polyrhythm.core.kernel.job import WorkerContext
from polyrhythm.core.protocols.row_kind import RowKind
from polyrhythm.core.strategy.replica import Replica
from polyrhythm.core.strategy.strategy_plan import StrategyPlan
from polyrhythm.core.tables.shape import TableShape
from polyrhythm.core.tables.table import Table
from polyrhythm.core.training.arguments import norm_bound, range_of, refuse_attached
from polyrhythm.core.training.checkpoint_plan import manifest_of
from polyrhythm.core.training.checkpointing import Checkpointing
from polyrhythm.core.training.collectives.together import Together
from polyrhythm.core.training.collectives.user_collectives import SurvivorCollectives, TreeCollectives
from polyrhythm.core.training.data.data import Batches, Data, StreamBatches
from polyrhythm.core.training.data.data_request import DataRequest
from polyrhythm.core.training.data.sampling import ShareSampler
from polyrhythm.core.training.data.stream import StreamShard
from polyrhythm.core.training.evaluation import Evaluate, Moments, every_moment
from polyrhythm.core.training.models import Models
from polyrhythm.core.training.numbers import whole
from polyrhythm.core.training.own_state.own_variables import Variables
from polyrhythm.core.training.result import Leave, Run, no_leaving
from polyrhythm.core.training.steps import Steps
from polyrhythm.core.training.tables import Tables
from polyrhythm.core.training.worker_state import WorkerState
from polyrhythm.errors import WorkloadError

Model = TypeVar("Model", bound=nn.Module)
Optimizer = TypeVar("Optimizer", bound=torch.optim.Optimizer)
Value = TypeVar("Value")


class Worker:
    """One of `workers` that train a model together; the same interface in both runtimes.

    `rank` counts from 0; `device` is where the model should be ("cpu", "cuda:0"); `seed` is the run's. The global random
    generators of torch, numpy and `random` are seeded for this worker before the training function begins.
    """

    def __init__(
        self, context: WorkerContext, plan: StrategyPlan, checkpoints: CheckpointPlan | None = None, leave: Leave = no_leaving
    ) -> None:
        group, strategy = plan.group(context.port.name), plan.strategy
        self.rank = group.rank
        self.workers = group.size
        self.seed = group.seed
        self.device = context.device
        self._leave = leave
        self._context = context
        self._strategy = strategy
        self._group = group
        chosen = checkpoints or CheckpointPlan()
        self._models = Models(plan, context, chosen.began)
        survives = strategy.tolerates_loss
        collective = SurvivorCollectives(context.port, group, self._models.losses) if survives else TreeCollectives(context.port, group)
        self._together = Together(collective, group, context.perform)
        self._plan = plan
        self._tables = Tables(plan, context, self._models)
        self._state = WorkerState(context, self._models.replicas, self._tables.states, chosen, self._between)
        self._steps = Steps(context, self._models, self._tables.states, self._state, self._between)
        self._data = self._steps.data = Data(
            strategy.shuffle, group, self._together, self.count, self._state.position, self._models, self._models.follow_losses
        )
        self._data.drawn = self._models.batch
        rng.seed_everything(group.seed, "worker", group.rank)
        self._checkpointing = Checkpointing(chosen, context, group, self._state, self._manifest)
        self._checkpointing.begin(self._models.follow_losses)

    def attach(
        self, model: Model, optimizer: Optimizer, *, clip_norm: float | None = None, name: str | None = None
    ) -> tuple[Model, Optimizer]:
        """Make `optimizer.step()` exchange by the strategy, and give every worker the weights of worker 0.

        Returns the same two objects. `clip_norm`, above 0 and the same at every worker, clips the norm of the gradient that the optimizer
        uses: the merged gradient where workers exchange gradients among themselves, each worker's own where it steps locally or where a
        server runs the optimizer.
        (clip_grad_norm_ before step() always clips the worker's own; signsgd and demo, which step by signs, refuse it.) A parameter without
        a gradient at every worker keeps none if the codec sends gradients unchanged; otherwise it counts as zero. Frozen parameters and
        buffers are copied from worker 0 and not exchanged; buffers are averaged in the end, unless the strategy's `buffers` do otherwise.

        May be called again before the first step, for another model or for another optimizer of the same model: each takes its own
        steps. With several models, `name` is the prefix of its weights' names in the result; by default the number of the call. Every
        trainable parameter of the models must be in one of the optimizers. Raises CompositionError for a model or an optimizer that the
        strategy does not support, WorkloadError for other arguments, and when training has started.
        """
        self._steps.refuse_if_finished("worker.attach", "attach every model at the beginning")
        refuse_attached(model, optimizer, name)
        self._models.attach(model, optimizer, norm_bound(clip_norm), name, self._steps.train)
        if self._state.resume_replica() and self._strategy.shares_memory:
            self.barrier()  # others would read the shared weights before worker 0 has restored them
        self._checkpointing.last = self.clock
        return model, optimizer

    def constrain(self, function: Callable[[Any], object], model: nn.Module | None = None) -> None:
        """Have weights satisfy something after every update: `worker.constrain(clip)`, where `clip(model)` writes to the parameters.

        `function` bounds, norms or masks the parameters of the model in place; given a model that satisfies it already, it changes
        nothing. It is called without gradients: now, after every step, when an exchange has changed the weights, and at the end. Call
        it after `attach`, at every worker; `model` says which, if several are attached. Raises CompositionError for a strategy whose
        servers hold the weights, WorkloadError for a model that is not attached.
        """
        self._steps.refuse_if_finished("worker.constrain", "call it before training")
        self._models.constrain(function, model)

    def table(
        self, name: str, *, rows: int, columns: int = 1, row: RowKind | None = None, initial: Tensor | None = None, cache: int | None = None
    ) -> Table:
        """Open a table of numbers that all workers share, in addition to a model or instead of one: `get` rows, `inc` them, end a `clock`.

        The strategy's servers keep it, and its consistency says how old what a worker reads may be: with `ssp` as old as its slack. Every
        worker opens the same tables in the same order, before the first step. `row` is what rows are made of, DenseRows(dtype) or
        SparseRows(dtype). It begins with worker 0's `initial` (rows, columns), else with zeros. A worker keeps at most `cache` of the rows
        that it has read; all by default. Its content is in the run's weights by `name`. Raises CompositionError for a strategy without
        servers, WorkloadError when training has started or for what cannot be a table.
        """
        self._steps.refuse_if_finished("worker.table", "open every table at the beginning")
        table = self._tables.open(name, TableShape(rows, columns, DenseRows() if row is None else row), initial, cache, self._steps.take)
        self._state.resume_table(name)
        self._checkpointing.last = self.clock
        return table

    def keep(self, **objects: Any) -> None:
        """Include objects of your own in checkpoints, by name: `worker.keep(scheduler=scheduler, average=average)`.

        Each has `state_dict()` and `load_state_dict(state)`, as learning-rate schedulers do; its state consists of numbers, text, tensors,
        and lists, tuples and dicts of them. Call it after `attach`, at every worker. In a resumed run their state is restored at once,
        and again when the data have reached the position of the checkpoint. Raises WorkloadError for an object without these
        methods, CheckpointError for one that the checkpoint does not have.
        """
        for name, kept in objects.items():
            self._state.keep(name, kept)

    def variables(self, **values: Any) -> Variables:
        """Variables that are in checkpoints: `own = worker.variables(best=0.0)`, then `own.best = max(own.best, accuracy)`.

        Give each its value at the beginning: a number, text, a tensor, or lists, tuples and dicts of them. In a resumed run they have those
        of the checkpoint.
        """
        return self._state.keep_values(values)

    def enumerate(self, batches: Batches | StreamBatches, start: int = 0) -> Iterator[tuple[int, Any]]:
        """The batches of a pass with their numbers, as `enumerate` gives them; the numbers continue in a resumed run."""
        return self._data.numbered(batches, start)

    def save(self) -> bool:
        """Write a checkpoint now, and return whether it was written. Every worker calls it after the same step, at the end of an iteration.

        A resumed run writes none before its data have reached the position of the checkpoint. If it cannot be written, the run continues
        with a RecordWarning. No checkpoints are written after a worker has finished or was lost. Raises WorkloadError without a directory.
        """
        return self._checkpointing.request(self.clock, self._state.position)

    def _between(self) -> None:
        """Write a checkpoint if one is due: all batches that were handed out have been used."""
        self._checkpointing.between(self.clock)

    def _manifest(self, step: int) -> Manifest:
        return manifest_of(self._plan, step, self._context.port.now(), self._checkpointing.plan.circumstances)

    def batches(self, dataset: Any, batch_size: int | None = None, *, steps: int | None = None) -> Batches | StreamBatches:
        """This worker's batches: each iteration over them is an epoch; shards are disjoint, and all workers get equally many batches.

        `dataset` is a map-style Dataset or a tuple of tensors, reshuffled each epoch; a DataLoader, whose sampler, loading processes and
        options are used; a stream (an IterableDataset, an iterator), which every worker reads completely; or data that divide
        themselves (any `ShardedSource`), of which each worker reads its shard. `batch_size` counts samples per worker and step; the
        default is the loader's own, otherwise 32. `steps` ends each pass after that many batches, in a resumed run too. `len()` is the
        number of batches, where it is known. Raises DataError for other data.
        """
        return self._data.batches(DataRequest(dataset, batch_size, steps), self._context.port, self._context.perform)

    def range(self, *bounds: int) -> Iterator[int]:
        """The numbers of `range(...)`, in a resumed run from where they were: `for epoch in worker.range(10):`.

        It counts epochs, with loops over batches inside, or the steps of a loop without `batches`.
        """
        return self._state.position.count(range_of(bounds))

    def sampler(self, dataset: Sized, shuffle: bool = True, counts: bool = True) -> ShareSampler:
        """A sampler of this worker's shard of `dataset`, for a DataLoader of your own: equally many indices for all, reshuffled each epoch.

        `dataset` may be one of torch's samplers. A drawn index `counts` as a sample of the next step. Raises DataError for what has none.
        """
        return self._data.sampler(dataset, shuffle, counts)

    def shard(self, iterable: Iterable[Any]) -> StreamShard:
        """This worker's elements of any iterable, files or batches or samples: rank, rank + workers, …, equally many for all.

        It is an IterableDataset, which the loading processes of a DataLoader divide among them. Every worker iterates over all elements,
        which must be the same at every worker: seed their randomness with `seed`. Samples are not counted: call `count` for each step.
        """
        return self._data.shard(iterable)

    def report(self, **metrics: float | Tensor) -> None:
        """Record metrics, numbers or tensors of one element: `worker.report(loss=loss, accuracy=accuracy)`.

        The last ones are the run's final metrics. Raises DivergedError for one that is not finite, WorkloadError for one that is no number.
        """
        self._models.shown()
        self._state.report(metrics, self.clock)

    def evaluate(self, function: Evaluate, moments: Moments = every_moment) -> None:
        """Evaluate the run's result with `function(model)`, at a grid of times that is the same for every run.

        The function gets the attached models, in the order of attaching, and returns metrics by name: `{"accuracy": 0.97}`, each a float or
        a tensor of one element. It is called at worker 0 after the training, without gradients and with the models in evaluation
        mode, on snapshots of the weights: those of the servers, the mean of the replicas under gossip, or those that all workers share.
        Weights, buffers, modes and random streams are unaffected. Evaluation takes no virtual time and no bytes, and
        is not in the run's seconds. The metrics of the final weights become the run's.

        The times are 1 ms after the beginning, and then each 9 % later. Floating-point buffers, such as batch norm's statistics, are those
        of the step in progress at that time, after its forward pass: their mean over the workers, or worker 0's where buffers
        are not averaged; all other buffers are the final ones. For each call of `attach`, snapshots of the weights take 1 GB at most over
        all workers and servers, and those of buffers as much again: times are left out to fit; larger models are evaluated at the end only.

        Where evaluating takes long, `moments` chooses some of these times: it is called with their number, the end of the run among them,
        and a function that evaluates at one of these places and returns the metrics. The end is evaluated in any case.

        Every worker must call it. Raises WorkloadError after training has started, CompositionError at the first step if only some call it.
        """
        self._models.evaluation.request(function, moments, self._models.checked)

    @property
    def seconds_aside(self) -> float:
        """Seconds of the run's clock spent on evaluation after the training."""
        return self._models.evaluation.seconds

    def finish(self) -> None:
        """Complete outstanding exchanges: afterwards the model has the run's final weights. Called for you when `train` returns."""
        if not self._steps.held:
            raise WorkloadError("The training function never called worker.attach(model, optimizer): call it before the training loop.")
        if not self._steps.finished:
            self._state.position.refuse_end_before_arrival()
            self._steps.finished = True
            self._checkpointing.end(self.clock)
            self._tables.finish()
            self._state.metrics |= self._models.finish(self.clock > 0)

    def leave(self) -> Run:
        """Finish, and leave the run that this process has joined, when all others do: then all, or new processes, may join again.

        Its summary counts all workers; only worker 0's has weights. Raises the error of a failed run; WorkloadError in a run of `pr.run`.
        """
        return self._leave()

    def close(self) -> None:
        """End this worker's persistent data-loading processes. Called for you when `train` ends, also after an error."""
        self._data.close()
        self._checkpointing.close()

    @property
    def returning(self) -> bool:
        """True while a resumed run has not come to where the checkpoint was written."""
        return self._state.position.returning

    @property
    def finished(self) -> bool:
        """True if `finish` was called."""
        return self._steps.finished

    @property
    def clock(self) -> int:
        """Steps that this worker has taken; with several models or tables, the largest number of any of them."""
        return self._steps.clock

    def barrier(self) -> None:
        """Wait until every worker has called it. If a run continues without a lost worker, so do this and the following methods."""
        self._together.barrier()

    def mean(self, value: float | Tensor) -> Any:
        """The mean of `value` over all workers, the same at each: a float for numbers, a tensor for tensors."""
        return self._together.mean(value)

    def any(self, value: object) -> bool:
        """True if `value` is true at one worker or more: `if worker.any(loss < 0.1): break` ends the loop at all of them."""
        return self._together.any(value)

    def broadcast(self, value: Value) -> Value:
        """Worker 0's `value` at every worker: a tensor, or numbers, text, bytes, None, and lists, tuples, dicts of them."""
        return self._together.broadcast(value)

    def gather(self, value: Value) -> list[Value]:
        """Every worker's `value`, by rank, the same list at each: tensors, of any shapes, or what `broadcast` takes."""
        return self._together.gather(value)

    def print(self, *values: object) -> None:
        """Print at worker 0 only."""
        if self.rank == 0:
            print(*values)

    def count(self, samples: int) -> None:
        """Count `samples` samples as used by the next step, for training functions that do not use `batches` or `sampler`."""
        self._models.shown()
        self._steps.count(whole("worker.count was given", samples, "how many samples the next step uses", least=0))

    @property
    def overlaps(self) -> bool:
        """True if the exchange of gradients begins during `backward()`."""
        return any(replica.overlaps for replica in self._models.replicas)

    @property
    def attached(self) -> tuple[Replica, ...]:
        """The replicas, for code that inspects a run or builds on it; after `finish` they hold the final weights."""
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
        """The final parameters and buffers by name, on the CPU, and at worker 0 the tables; calls `finish`."""
        self.finish()
        return self._models.weights() | self._tables.weights()
