"""The `worker` argument of a training function.

`work.make_job` makes one for each worker of a run, `join` one for its process; training functions and integrations call it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sized
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from polyrhythm.core.catalogue import DenseRows
from polyrhythm.core.checkpoints.plan import CheckpointPlan
from polyrhythm.core.kernel.crew import FIXED, Crew
from polyrhythm.core.kernel.job import WorkerContext
from polyrhythm.core.processes.system.allocator import give_back_after
from polyrhythm.core.protocols.partition import LocalParts, Loss, Undivided
from polyrhythm.core.protocols.row_kind import RowKind
from polyrhythm.core.strategy.strategy_plan import StrategyPlan
from polyrhythm.core.tables.shape import TableShape
from polyrhythm.core.tables.table import Table
from polyrhythm.core.training.arguments import norm_bound, range_of, refuse_attached
from polyrhythm.core.training.crew_change import Listener, warn_of_plain_epochs
from polyrhythm.core.training.data.data import Batches, StreamBatches
from polyrhythm.core.training.data.data_request import DataRequest
from polyrhythm.core.training.data.sampling import ShareSampler
from polyrhythm.core.training.data.stream import StreamShard
from polyrhythm.core.training.numbers import whole
from polyrhythm.core.training.own_state.own_variables import Variables
from polyrhythm.core.training.result import Leave, Run, no_leaving
from polyrhythm.core.training.shards import attach_whole
from polyrhythm.core.training.whole_batch_worker import WholeBatchWorker
from polyrhythm.core.training.worker_parts import WorkerHooks, assembled
from polyrhythm.errors import WorkloadError

Model = TypeVar("Model", bound=nn.Module)
Optimizer = TypeVar("Optimizer", bound=torch.optim.Optimizer)
Value = TypeVar("Value")


class Worker(WholeBatchWorker):
    """One of `workers` that train a model together; the same interface in both runtimes.

    `rank` counts from 0, and `replica` too, among the `replicas` of the model; `device` is where the model should be ("cpu", "cuda:0");
    `seed` is the run's. The global random generators of torch, numpy and `random` are seeded for this worker before the training function
    begins.
    """

    def __init__(
        self,
        context: WorkerContext,
        plan: StrategyPlan,
        checkpoints: CheckpointPlan | None = None,
        leave: Leave = no_leaving,
        crew: Crew = FIXED,
        local: LocalParts | None = None,
    ) -> None:
        plan = plan.at(context.port.name)
        self.seed = plan.mesh.seed
        self.device = context.device
        self._leave = leave
        self._context = context
        self._strategy = plan.strategy
        chosen = checkpoints or CheckpointPlan()
        context.port.incarnation = chosen.incarnation
        self._place(plan)
        self._local = Undivided() if local is None else local
        parts = assembled(context, plan, chosen, WorkerHooks(self._place, self._between, self.count))
        self._batches = parts.batches
        self._models, self._tables, self._state, self._steps = parts.models, parts.tables, parts.state, parts.steps
        self._steps.complete = self._local.complete
        self._steps.taken = self._local.follow
        self._models.evaluation.whole = self._local.whole_models
        self._state.parts, self._state.counts = self._local, self.counts_samples
        self._together, self._data, self._checkpointing, self._crew = parts.together, parts.data, parts.checkpointing, parts.crew
        self._checkpointing.settled = self._settled
        if not crew.fixed and self._group.is_first:  # the others have the same code
            self._state.position.repeated = warn_of_plain_epochs

    def _place(self, plan: StrategyPlan) -> None:
        """Take the ranks and the groups of this worker from the plan."""
        name = self._context.port.name
        self._group, replicas = plan.mesh.world(name), plan.mesh.shares(name)
        self.rank, self.workers = self._group.rank, self._group.size
        self.replica, self.replicas = replicas.rank, replicas.size
        self.counts_samples = plan.mesh.twins(name).is_first
        self.has_result = plan.mesh.replicas(name).is_first

    def attach(
        self,
        model: Model,
        optimizer: Optimizer,
        *,
        clip_norm: float | None = None,
        name: str | None = None,
        loss: Loss | None = None,
    ) -> tuple[Model, Optimizer]:
        """Make `optimizer.step()` exchange by the strategy, and give every worker the weights of worker 0.

        Returns the same two objects. `clip_norm`, above 0 and the same at every worker, clips the gradient that the optimizer uses: the
        merged one where workers exchange gradients, each worker's own where it steps locally or a server runs the optimizer. A parameter
        without a gradient at every worker keeps none if the codec sends gradients unchanged; otherwise it counts as zero. Frozen parameters
        and buffers are copied from worker 0 and not exchanged; the strategy's `buffers` say what becomes of buffers in the end.

        Where a mesh divides the model, its modules and the optimizer's parameters are replaced by this worker's. `loss` is a function of
        outputs and targets that gives the mean over a batch, for `train_step`.

        May be called again before the first step, for another model or another optimizer of the same model. `name` is then the prefix of
        its weights in the result; by default the number of the call. Every trainable parameter must be in one of the optimizers. Raises
        CompositionError for a model or optimizer that the strategy does not support, WorkloadError when training has started.
        """
        self._steps.refuse_if_finished("worker.attach", "attach every model at the beginning")
        self._batches.refuse_attaching()
        refuse_attached(model, optimizer, name)
        self._local.localize(model, optimizer, loss)
        self._state.expect_replica(model)
        attach_whole(self._models, model, optimizer, norm_bound(clip_norm), name, self._steps.train)
        self._local.attached(self._models.replicas[-1])
        if self._state.resume_replica() and self._strategy.shares_memory:
            # others would read the shared weights before worker 0 has restored them
            self._crew.uninterrupted(self._models.replicas[-1].wait_for_memory) if self._context.port.changed else self.barrier()
        self._checkpointing.last = max(self._checkpointing.last, self.clock)
        give_back_after(sum(part.local.parameters.flat.nbytes for part in self._models.replicas[-1].parts))
        return model, optimizer

    def constrain(self, function: Callable[[Any], object], model: nn.Module | None = None) -> None:
        """Have weights satisfy something after every update: `worker.constrain(clip)`, where `clip(model)` writes to the parameters.

        `function` bounds, norms or masks the parameters in place; a model that satisfies it already it leaves as it is. It is called
        without gradients: now, after every step and every exchange, and at the end. Call it after `attach`, at every worker; `model` says
        which, if several are attached. Raises CompositionError where servers hold the weights, WorkloadError for a model not attached.
        """
        self._steps.refuse_if_finished("worker.constrain", "call it before training")
        self._models.constrain(function, model)

    def table(
        self, name: str, *, rows: int, columns: int = 1, row: RowKind | None = None, initial: Tensor | None = None, cache: int | None = None
    ) -> Table:
        """Open a table of numbers that all workers share, in addition to a model or instead of one: `get` rows, `inc` them, end a `clock`.

        The strategy's servers keep it, and its consistency bounds the age of what a worker reads. Every worker opens the same tables in the
        same order, before the first step. `row` is DenseRows(dtype) or SparseRows(dtype); the table begins with worker 0's `initial` (rows,
        columns), else with zeros. A worker keeps at most `cache` of the rows that it has read; all by default. Its content is in the run's
        weights by `name`. Raises CompositionError for a strategy without servers, WorkloadError when training has started.
        """
        self._steps.refuse_if_finished("worker.table", "open every table at the beginning")
        self._state.expect_table(name)
        table = self._tables.open(name, TableShape(rows, columns, DenseRows() if row is None else row), initial, cache, self._steps.take)
        self._state.resume_table(name)
        self._checkpointing.last = max(self._checkpointing.last, self.clock)
        return table

    def keep(self, **objects: Any) -> None:
        """Include objects of your own in checkpoints, by name: `worker.keep(scheduler=scheduler, average=average)`.

        Each has `state_dict()` and `load_state_dict(state)`, with numbers, text, tensors, and lists, tuples and dicts of them. Call it
        after `attach`, at every worker. A resumed run restores their state at once, and again at the position of the checkpoint. Raises
        WorkloadError for an object without these methods, CheckpointError for one that the checkpoint does not have. A worker that
        joins the run gets the state of one that was there.
        """
        for name, kept in objects.items():
            self._state.keep(name, kept)

    def variables(self, **values: Any) -> Variables:
        """Variables that are in checkpoints: `own = worker.variables(best=0.0)`, then `own.best = max(own.best, accuracy)`.

        Give each its first value: a number, text, a tensor, or lists, tuples and dicts of them. A resumed run has those of the checkpoint.
        """
        return self._state.keep_values(values)

    def enumerate(self, batches: Batches | StreamBatches, start: int = 0) -> Iterator[tuple[int, Any]]:
        """The batches of a pass with their numbers, as `enumerate` gives them; the numbers continue in a resumed run."""
        return self._data.numbered(batches, start)

    def save(self) -> bool:
        """Write a checkpoint now, and return whether it was written. Every worker calls it after the same step, at the end of an iteration.

        A resumed run writes none before its data are where they were; where one cannot be written, the run continues with a RecordWarning.
        None is written after a worker has finished or was lost. Raises WorkloadError without a directory.
        """
        return self._checkpointing.request(self.clock, self._state.position)

    def _settled(self, step: int) -> int:
        """The number of the last step, after those that were under way."""
        self._local.settle()
        return max(step, self.clock)

    def _between(self) -> None:
        """Write a checkpoint if one is due, and change the crew: all batches that were handed out have been used."""
        self._crew.uninterrupted(lambda: self._checkpointing.between(self.clock))
        self._crew.between(self._state.drain)

    def batches(self, dataset: Any, batch_size: int | None = None, *, steps: int | None = None) -> Batches | StreamBatches:
        """This worker's batches: each iteration over them is an epoch; shards are disjoint, and all workers get equally many batches.

        `dataset` is a map-style Dataset or a tuple of tensors, reshuffled each epoch; a DataLoader, whose sampler, loading processes and
        options are used; a stream (an IterableDataset, an iterator), which every worker reads completely; or a `ShardedSource`, of which
        each worker reads its shard. `batch_size` counts samples per worker and step; the default is the loader's own, otherwise 32. `steps`
        ends each pass after that many batches. `len()` is the number of batches, where it is known. Raises DataError for other data.
        """
        return self._data.batches(DataRequest(dataset, batch_size, steps), self._context.port, self._crew.perform)

    def range(self, *bounds: int) -> Iterator[int]:
        """The numbers of `range(...)`, in a resumed run from where they were: for steps without `batches`, and other counts."""
        return self._state.position.count(range_of("range", bounds))

    def epochs(self, count: int) -> Iterator[int]:
        """The numbers of `count` epochs: `for epoch in worker.epochs(10):`, with loops over batches inside.

        In a resumed run it begins with the epoch of the checkpoint, and at a worker that joins with the present one.
        """
        return self._state.position.count(range_of("epochs", (count,)))

    def on_change(self, function: Listener) -> None:
        """Call `function` with a `CrewChange` after workers have joined, left or been lost, before the next step; in the order given."""
        self._state.listeners.add(function)

    def sampler(self, dataset: Sized, shuffle: bool = True, counts: bool = True) -> ShareSampler:
        """A sampler of this worker's shard of `dataset`, for a DataLoader of your own: equally many indices for all, reshuffled each epoch.

        `dataset` may be one of torch's samplers; a drawn index `counts` as a sample of the next step. Raises DataError without a length.
        """
        return self._data.sampler(dataset, shuffle, counts)

    def shard(self, iterable: Iterable[Any]) -> StreamShard:
        """This worker's elements of any iterable, files or batches or samples: rank, rank + workers, …, equally many for all.

        It is an IterableDataset, which the loading processes of a DataLoader divide. All elements must be the same at every worker: seed
        their randomness with `seed`. Samples are not counted: call `count` for each step.
        """
        return self._data.shard(iterable)

    def report(self, **metrics: float | Tensor) -> None:
        """Record metrics, numbers or tensors of one element: `worker.report(loss=loss, accuracy=accuracy)`.

        The last ones are the run's final metrics. Raises DivergedError for one that is not finite, WorkloadError for one that is no number.
        """
        self._models.shown()
        self._state.report(metrics, self.clock)

    def finish(self) -> None:
        """Complete outstanding exchanges: afterwards the model has the run's final weights. Called for you when `train` returns."""
        if not self._steps.held:
            raise WorkloadError("The training function never called worker.attach(model, optimizer): call it before the training loop.")
        if not self._steps.finished:
            self._state.position.refuse_end_before_arrival()
            self._local.settle()
            self._crew.finish(self._state.drain)
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

    def barrier(self) -> None:
        """Wait until every worker has called it. If a run continues without a lost worker, so do this and the following methods."""
        self._together.barrier()

    def mean(self, value: float | Tensor) -> Any:
        """The mean of `value` over all replicas of the model (workers, but for those that were lost), the same at each.

        A float for numbers, a tensor for tensors.
        """
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
        if self.is_first:
            print(*values)

    def count(self, samples: int) -> None:
        """Count `samples` samples as used by the next step, for training functions that do not use `batches` or `sampler`."""
        self._models.shown()
        self._steps.count(whole("worker.count was given", samples, "how many samples the next step uses", least=0))
