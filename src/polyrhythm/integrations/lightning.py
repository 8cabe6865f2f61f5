"""Lightning's Trainer and Fabric as one of many workers: a strategy for each."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from lightning.fabric.strategies import SingleDeviceStrategy as OfFabric
from lightning.pytorch.strategies import SingleDeviceStrategy as OfTrainer
from lightning.pytorch.trainer.states import TrainerFn
from lightning.pytorch.utilities.rank_zero import rank_zero_only
from torch import Tensor, nn
from torch.utils.data import DataLoader

from polyrhythm.core.training.data.loader import length
from polyrhythm.core.training.worker import Worker
from polyrhythm.errors import CompositionError
from polyrhythm.integrations.attached import attach, clip
from polyrhythm.integrations.loaders import shared


class WorkerCollectives:
    """The other workers of the run, in the terms that both of Lightning's strategies use."""

    def __init__(self, worker: Worker) -> None:
        self.worker = worker

    def enter(self) -> None:
        """Lightning keeps one rank for a process, where a simulator has several workers: it is this worker's turn."""
        rank_zero_only.rank = self.worker.rank

    def reduce(self, value: Any, kind: Any) -> Any:
        """The mean, sum, maximum or minimum over all workers of a tensor; another value as it is."""
        if not isinstance(value, Tensor):
            return value
        every = torch.stack(self.worker.gather(value)).to(value.device)
        self.enter()
        name = "mean" if kind is None else str(getattr(kind, "name", kind)).lower()
        if name in ("mean", "avg"):
            return every.float().mean(dim=0) if not every.is_floating_point() else every.mean(dim=0)
        combined: dict[str, Callable[..., Tensor]] = {"sum": every.sum, "max": every.amax, "min": every.amin}
        return combined[name](dim=0)

    def gather(self, tensor: Tensor, gradients: bool) -> Tensor:
        """Every worker's tensor, by rank, in a new first dimension."""
        if gradients:
            raise CompositionError("all_gather(sync_grads=True) has no gradient between workers: leave sync_grads out.")
        every = torch.stack(self.worker.gather(tensor)).to(tensor.device)
        self.enter()
        return every

    def decide(self, decision: bool, all_of_them: bool) -> bool:
        """True if all workers have decided so, or, without `all_of_them`, if any has."""
        agreed = not self.worker.any(not decision) if all_of_them else self.worker.any(decision)
        self.enter()
        return agreed

    def broadcast(self, value: Any, source: int) -> Any:
        """The value of worker `source`."""
        received = self.worker.broadcast(value) if source == 0 else self.worker.gather(value)[source]
        self.enter()
        return received

    def barrier(self) -> None:
        """Return when every worker has called it."""
        self.worker.barrier()
        self.enter()


class WorkerStrategy(OfTrainer):  # type: ignore[misc]
    """For `lightning.Trainer(strategy=WorkerStrategy(worker))`: optimizers exchange by the strategy of the run.

    The loaders of `fit` are shared out, each with the order of its sampler, `gradient_clip_val` clips merged gradients, `sync_dist` and
    decisions to stop are those of all workers, and worker 0 saves and logs. Other loops (`validate`, `test`, `predict`) go through
    all data at every worker.
    """

    strategy_name = "polyrhythm"
    is_distributed = True

    def __init__(self, worker: Worker, **options: Any) -> None:
        super().__init__(device=worker.device, **options)
        self.collectives = WorkerCollectives(worker)
        self.shares: bool | None = None
        self.global_rank = self.local_rank = worker.rank
        self.world_size = worker.workers
        self.collectives.enter()

    @property
    def is_global_zero(self) -> bool:
        """True if this is worker 0."""
        return self.global_rank == 0

    def setup(self, trainer: Any) -> None:
        """Set up as Lightning does, then attach every optimizer."""
        super().setup(trainer)
        connector = trainer._accelerator_connector
        if self.shares is None:  # Lightning would deal out samples itself, and shuffle those of a loader without shuffling
            self.shares, connector.use_distributed_sampler = connector.use_distributed_sampler, False
        if trainer.state.fn == TrainerFn.FITTING:
            for optimizer in self.optimizers:
                attach(self.collectives.worker, [self.lightning_module], optimizer)
        precision = self.precision_plugin
        precision.clip_grad_by_norm = self._clip  # clips what main_params are, which are the worker's own gradients
        precision.clip_grad_by_value = _refuse_values
        self.collectives.enter()

    def _clip(self, optimizer: Any, clip_val: float) -> None:
        clip(self.collectives.worker, [each for group in optimizer.param_groups for each in group["params"]], clip_val)

    def process_dataloader(self, dataloader: object) -> object:
        """In `fit` a loader over this worker's share, unless the Trainer has use_distributed_sampler=False."""
        chosen = self.shares and self.lightning_module.trainer.state.fn == TrainerFn.FITTING
        return shared(self.collectives.worker, dataloader, counts=False) if chosen and isinstance(dataloader, DataLoader) else dataloader

    def on_train_batch_start(self, batch: Any, batch_idx: int) -> None:
        """The samples of the batch count for the next step."""
        self.collectives.worker.count(length(batch))

    def optimizer_step(self, *given: Any, **options: Any) -> Any:
        """Step as Lightning does, then make this worker's rank Lightning's again."""
        result = super().optimizer_step(*given, **options)
        self.collectives.enter()
        return result

    def reduce(self, tensor: Any, group: Any = None, reduce_op: Any = "mean") -> Any:
        """The mean, sum, maximum or minimum of a tensor over all workers."""
        return self.collectives.reduce(tensor, reduce_op)

    def all_gather(self, tensor: Tensor, group: Any = None, sync_grads: bool = False) -> Tensor:
        """The tensors of all workers, in a new first dimension."""
        return self.collectives.gather(tensor, sync_grads)

    def reduce_boolean_decision(self, decision: bool, all: bool = True) -> bool:
        """True if all workers have decided so, or, without `all`, if any has."""
        return self.collectives.decide(decision, all)

    def broadcast(self, obj: Any, src: int = 0) -> Any:
        """The object of worker `src`, at all workers."""
        return self.collectives.broadcast(obj, src)

    def barrier(self, name: str | None = None) -> None:
        """Return when every worker has called it."""
        self.collectives.barrier()

    def teardown(self) -> None:
        """Tear down as Lightning does, but leave the model where the workers exchange it."""
        self.precision_plugin.teardown()
        self.accelerator.teardown()
        self.checkpoint_io.teardown()


class FabricStrategy(OfFabric):  # type: ignore[misc]
    """For `Fabric(strategy=FabricStrategy(worker))`: what is set up together is attached, and loaders are shared out.

    `fabric.clip_gradients(max_norm=...)` clips merged gradients. Every sample that is drawn from a loader that was set up counts.
    """

    def __init__(self, worker: Worker, **options: Any) -> None:
        super().__init__(device=worker.device, **options)
        self.collectives = WorkerCollectives(worker)
        self.global_rank = self.local_rank = worker.rank
        self.world_size = worker.workers
        self.modules: list[nn.Module] = []
        self._backward_sync_control = _NothingToHold()
        self.collectives.enter()

    @property
    def is_global_zero(self) -> bool:
        """True if this is worker 0."""
        return self.global_rank == 0

    def setup_module(self, module: nn.Module) -> nn.Module:
        """The module is one whose optimizer may be set up later."""
        self.modules.append(module)
        return module

    def setup_optimizer(self, optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
        """Attach it with its module."""
        attach(self.collectives.worker, self.modules, optimizer)
        self.collectives.enter()
        return optimizer

    def process_dataloader(self, dataloader: DataLoader[Any]) -> DataLoader[Any]:
        """The loader over this worker's share."""
        return shared(self.collectives.worker, dataloader)

    def optimizer_step(self, optimizer: Any, **options: Any) -> Any:
        """Step as Lightning does, then make this worker's rank Lightning's again."""
        result = super().optimizer_step(optimizer, **options)
        self.collectives.enter()
        return result

    def clip_gradients_norm(
        self, module: nn.Module, optimizer: Any, max_norm: float, norm_type: float = 2.0, error_if_nonfinite: bool = True
    ) -> Tensor:
        """Have the next step clip the gradient that it uses; returns the norm of this worker's own."""
        return clip(self.collectives.worker, [each for group in optimizer.param_groups for each in group["params"]], max_norm, norm_type)

    def clip_gradients_value(self, module: nn.Module, optimizer: Any, clip_val: float) -> None:
        """Raises CompositionError, since merged gradients are clipped by their norm only."""
        _refuse_values(optimizer, clip_val)

    def all_reduce(self, tensor: Any, group: Any = None, reduce_op: Any = "mean") -> Any:
        """The mean, sum, maximum or minimum of a tensor over all workers."""
        return self.collectives.reduce(tensor, reduce_op)

    def all_gather(self, tensor: Tensor, group: Any = None, sync_grads: bool = False) -> Tensor:
        """The tensors of all workers, in a new first dimension."""
        return self.collectives.gather(tensor, sync_grads)

    def reduce_boolean_decision(self, decision: bool, all: bool = True) -> bool:
        """True if all workers have decided so, or, without `all`, if any has."""
        return self.collectives.decide(decision, all)

    def broadcast(self, obj: Any, src: int = 0) -> Any:
        """The object of worker `src`, at all workers."""
        return self.collectives.broadcast(obj, src)

    def barrier(self, *given: Any, **options: Any) -> None:
        """Return when every worker has called it."""
        self.collectives.barrier()


class _NothingToHold:
    """Gradients are exchanged in step(), so that a backward pass has nothing to leave out."""

    def no_backward_sync(self, module: nn.Module, enabled: bool) -> AbstractContextManager[None]:
        return nullcontext()


def _refuse_values(optimizer: Any, clip_val: float) -> None:
    raise CompositionError("Clipping by value would clip each worker's own gradient, not the merged one: clip by norm.")
