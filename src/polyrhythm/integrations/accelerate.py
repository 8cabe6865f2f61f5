"""Accelerate's Accelerator as one of many workers: its processes are the workers, and its prepared optimizers exchange by the strategy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import accelerate
import torch
from accelerate.data_loader import BatchSamplerShard, prepare_data_loader
from accelerate.state import DistributedType, GradientState, PartialState
from accelerate.utils import recursively_apply
from torch import Tensor
from torch.utils.data import (
    DataLoader,
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

from polyrhythm.core import rng
from polyrhythm.core.training.data.sampling import ShareSampler
from polyrhythm.core.training.worker import Worker
from polyrhythm.errors import CompositionError
from polyrhythm.integrations.attached import attach, clip
from polyrhythm.integrations.launcher import alone
from polyrhythm.integrations.loaders import shared

_DRAWN = (RandomSampler, WeightedRandomSampler, SubsetRandomSampler, DistributedSampler, ShareSampler)
"""Samplers whose draw the run's seed decides; with others, Accelerate deals out the batches that they make, which are then all used."""


class StateOfWorker:
    """Accelerate's state of a process, `state`, that knows of no others, with a worker's rank and number of workers in it."""

    use_distributed = True

    def __init__(self, state: Any, worker: Worker) -> None:
        self._state = state
        self._worker = worker
        self.num_processes = worker.workers
        self.process_index = self.local_process_index = worker.rank
        self.is_main_process = self.is_local_main_process = worker.rank == 0
        self.is_last_process = worker.rank == worker.workers - 1

    def __getattr__(self, name: str) -> Any:
        return getattr(self._state, name)

    def print(self, *values: Any, **options: Any) -> None:
        """Print the values at worker 0 only."""
        if self.is_main_process:
            print(*values, **options)

    def wait_for_everyone(self) -> None:
        """Return when every worker has called it."""
        self._worker.barrier()

    @contextmanager
    def main_process_first(self) -> Iterator[None]:
        """Worker 0 goes through what is within it before the others."""
        if not self.is_main_process:
            self._worker.barrier()
        yield
        if self.is_main_process:
            self._worker.barrier()

    local_main_process_first = main_process_first

    def destroy_process_group(self, group: Any = None) -> None:
        """Nothing to do: Accelerate has made no process group."""


class Accelerator(accelerate.Accelerator):  # type: ignore[misc]
    """`accelerate.Accelerator(**options)` of one `worker`; what is prepared together is attached to it.

    Raises CompositionError for what Accelerate would do with processes that it starts itself (FSDP, DeepSpeed, fp16).
    """

    def __init__(self, worker: Worker, **options: Any) -> None:
        with alone():
            super().__init__(**options)
        self._join(worker)

    @classmethod
    def of(cls, worker: Worker, made: accelerate.Accelerator) -> Accelerator:
        """An Accelerator that a library made, from now on that of `worker`; the same object."""
        made.__class__ = cls
        made._join(worker)
        return made  # type: ignore[no-any-return]

    def _join(self, worker: Worker) -> None:
        if self.state.distributed_type is not DistributedType.NO or self.scaler is not None:
            raise CompositionError(
                f"Accelerate is set up for {self.state.distributed_type.value} with mixed_precision={self.mixed_precision!r}, but the "
                "worker exchanges gradients itself and takes no GradScaler: leave plugins out, use mixed_precision='bf16' or 'no', and "
                "make the Accelerator before anything else of Accelerate's."
            )
        self.worker = worker
        self.counts_batches = True
        self.state: Any = StateOfWorker(self.state, worker)
        # Accelerate's is one of the process, where a simulator has several workers
        self.gradient_state = object.__new__(GradientState)
        self.gradient_state.__dict__ = {**GradientState().__dict__, "dataloader_references": [None]}

    def prepare(self, *objects: Any, device_placement: list[bool] | None = None) -> Any:
        """Prepare as Accelerate does, then attach every optimizer with its model."""
        prepared = super().prepare(*objects, device_placement=device_placement)
        for each in self._optimizers:
            each.gradient_state = self.gradient_state
            attach(self.worker, [self.unwrap_model(model) for model in self._models], each.optimizer)
        for each in self._schedulers:
            each.gradient_state = self.gradient_state
        return prepared

    def prepare_data_loader(
        self, data_loader: DataLoader[Any], device_placement: bool | None = None, slice_fn_for_dispatch: Any = None
    ) -> DataLoader[Any]:
        """The loader over this worker's share; batches are dealt out as a whole where its order is not drawn at random."""
        if getattr(data_loader, "_is_accelerate_prepared", False):
            return super().prepare_data_loader(data_loader, device_placement, slice_fn_for_dispatch)  # type: ignore[no-any-return]
        sampler: Any = getattr(data_loader.batch_sampler, "sampler", data_loader.sampler)
        if type(sampler) in _DRAWN or isinstance(data_loader.dataset, IterableDataset):
            own = shared(self.worker, data_loader, counts=False, split=self.worker.workers if self.split_batches else 1)
            placed = self.device_placement if device_placement is None else device_placement
            prepared = prepare_data_loader(
                own, self.device, 1, 0, put_on_device=placed, dispatch_batches=False, non_blocking=self.non_blocking
            )
            self._dataloaders.append(prepared)
        else:
            if getattr(sampler, "generator", self) is None:
                sampler.generator = rng.generator(self.worker.seed, "prepared", len(self._dataloaders))
            prepared = super().prepare_data_loader(data_loader, device_placement, slice_fn_for_dispatch)
        prepared.gradient_state = self.gradient_state
        return prepared  # type: ignore[no-any-return]

    def backward(self, loss: Tensor, **options: Any) -> None:
        """Compute gradients as Accelerate does, and count the batch's samples for the next step."""
        if self.counts_batches and (loader := self.gradient_state.active_dataloader) is not None:
            self.worker.count(_samples(loader))
        super().backward(loss, **options)

    def clip_grad_norm_(self, parameters: Iterable[Tensor], max_norm: float, norm_type: float = 2) -> Tensor:
        """Have the next step clip the gradient that it uses, the merged one; returns the norm of this worker's own."""
        return clip(self.worker, parameters, max_norm, norm_type)

    def clip_grad_value_(self, parameters: Iterable[Tensor], clip_value: float) -> None:
        """Raises CompositionError: only a merged gradient's norm is clipped."""
        raise CompositionError("clip_grad_value_ would clip each worker's own gradient, not the merged one: use clip_grad_norm_.")

    def gather(self, tensor: Any) -> Any:
        """The tensors of all workers, one after the other."""

        def whole(value: Tensor) -> Tensor:
            return torch.cat([each.reshape(1) if each.dim() == 0 else each for each in self.worker.gather(value)]).to(value.device)

        return recursively_apply(whole, tensor, error_on_other_type=True)

    def gather_for_metrics(self, input_data: Any, use_gather_object: bool = False) -> Any:
        """Gather as `gather` does, also plain values in lists, without the samples that complete the last batches."""
        if use_gather_object or not _tensors_only(input_data):
            return [each for part in self.worker.gather(input_data) for each in part]
        loader = self.gradient_state.active_dataloader
        if loader is None or not isinstance(loader.batch_sampler, BatchSamplerShard):
            return self.gather(input_data)
        return super().gather_for_metrics(input_data)

    def reduce(self, tensor: Any, reduction: str = "sum", scale: float = 1.0) -> Any:
        """The sum, mean or maximum over all workers."""

        def reduced(value: Tensor) -> Tensor:
            every = torch.stack(self.worker.gather(value)).to(value.device)
            ways: dict[str, Callable[..., Tensor]] = {"sum": every.sum, "mean": every.mean, "max": every.amax}
            combined = ways[reduction](dim=0)
            return combined * scale if scale != 1.0 else combined.to(value.dtype)

        return tensor if reduction == "none" else recursively_apply(reduced, tensor, error_on_other_type=True)

    def pad_across_processes(self, tensor: Any, dim: int = 0, pad_index: int = 0, pad_first: bool = False) -> Any:
        """Every tensor as long in `dim` as the longest of any worker."""

        def padded(value: Tensor) -> Tensor:
            if dim >= value.dim():
                return value
            missing = max(self.worker.gather(value.shape[dim])) - value.shape[dim]
            rest = value.new_full((*value.shape[:dim], missing, *value.shape[dim + 1 :]), pad_index)
            return torch.cat([rest, value] if pad_first else [value, rest], dim=dim)

        return recursively_apply(padded, tensor, error_on_other_type=True)

    def wait_for_everyone(self) -> None:
        """Return when every worker has called it."""
        self.worker.barrier()

    @contextmanager
    def split_between_processes(self, inputs: Any, apply_padding: bool = False) -> Iterator[Any]:
        """This worker's part of `inputs`."""
        with PartialState.split_between_processes(self.state, inputs, apply_padding) as part:
            yield part

    def on_main_process(self, function: Callable[..., Any] | None = None) -> Any:
        """Have `function` called at worker 0 only."""
        return PartialState.on_main_process(self.state, function)

    on_local_main_process = on_main_process

    def on_last_process(self, function: Callable[..., Any]) -> Any:
        """Have `function` called at the last worker only."""
        return PartialState.on_last_process(self.state, function)

    def on_process(self, function: Callable[..., Any] | None = None, process_index: int | None = None) -> Any:
        """Have `function` called at one worker only."""
        return PartialState.on_process(self.state, function, process_index)

    def init_trackers(self, *given: Any, **options: Any) -> None:
        """Trackers are those of worker 0."""
        if self.is_main_process:
            super().init_trackers(*given, **options)

    def save(self, *given: Any, **options: Any) -> None:
        """Save the object, at worker 0 only."""
        if self.is_main_process:
            super().save(*given, **options)

    def save_model(self, *given: Any, **options: Any) -> None:
        """Save the model, at worker 0 only."""
        if self.is_main_process:
            super().save_model(*given, **options)

    def save_state(self, *given: Any, **options: Any) -> Any:
        """Worker 0 saves, and the others wait for it."""
        path = super().save_state(*given, **options) if self.is_main_process else None
        self.worker.barrier()
        return path


def _tensors_only(data: Any) -> bool:
    try:
        recursively_apply(lambda each: each, data, error_on_other_type=True)
    except TypeError:
        return False
    return True


def _samples(loader: Any) -> int:
    """The number of samples of the batch that `loader` yielded last."""
    batching = loader.batch_sampler
    size = int(loader.batch_size or 1) if batching is None else int(batching.batch_size)
    if batching is None:
        return size
    if isinstance(batching, BatchSamplerShard):
        return size // (batching.num_processes if batching.split_batches else 1)
    rest = len(batching.sampler) % size if loader.end_of_dataloader and not batching.drop_last else 0
    return rest or size
