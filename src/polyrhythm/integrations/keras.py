"""Keras 3 on torch as one of many workers: its own optimizer, behind `fit`."""

from __future__ import annotations

import inspect
import math
from collections.abc import Sequence
from typing import Any

import keras
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from polyrhythm.core.training.data.loader import length
from polyrhythm.core.training.worker import Worker
from polyrhythm.errors import CompositionError, DataError
from polyrhythm.integrations.foreign import ForeignOptimizer, attach_foreign
from polyrhythm.integrations.loaders import shared

_WRITING = (
    keras.callbacks.ModelCheckpoint,
    keras.callbacks.CSVLogger,
    keras.callbacks.TensorBoard,
    keras.callbacks.RemoteMonitor,
)
"""Callbacks that write, which are left to worker 0."""


def attach(worker: Worker, model: Any) -> Any:
    """Make `model.fit` of a compiled, built model that of one of many workers, and return the model.

    The Keras optimizer steps on the merged gradient where workers exchange gradients, clips it if it clips, and on the worker's own where
    it steps locally. `fit` trains on this worker's share of the data, prints and writes at worker 0, and shows callbacks the mean of
    the workers' metrics. Raises CompositionError for another backend of Keras than torch, a model that is not compiled or not built, and
    systems whose servers run the optimizer.
    """
    if keras.backend.backend() != "torch":
        raise CompositionError(f"Keras runs on {keras.backend.backend()}: set KERAS_BACKEND=torch before Keras is imported.")
    if not getattr(model, "compiled", False) or not model.built:
        raise CompositionError("The Keras model is not built or not compiled: give it an Input, or call model.build(...), and compile it.")
    if isinstance(model.optimizer, keras.optimizers.LossScaleOptimizer):
        raise CompositionError("LossScaleOptimizer lets each worker skip steps by itself: use the policy mixed_bfloat16, which needs none.")
    optimizer, variables, apply = model.optimizer, list(model.trainable_variables), model.optimizer.apply
    if not optimizer.built:
        optimizer.build(variables)
    step = ForeignOptimizer([each.value for each in variables], _Keras(optimizer, variables, apply))
    attach_foreign(worker, model, step)

    def exchanged(grads: Sequence[Tensor], trainable_variables: Any = None) -> None:
        for variable, grad in zip(variables, grads, strict=True):
            variable.value.grad = grad
        step.step()

    train_step = model.train_step

    def counted(data: Any) -> Any:
        worker.count(length(data))  # Keras draws batches that it does not train on, to build the model
        return train_step(data)

    optimizer.apply, model.train_step, model.fit = exchanged, counted, Fit(worker, model.fit)
    return model


class Fit:
    """`model.fit`, `plain`, on one worker's share of the data. Raises DataError for data that cannot be shared out."""

    def __init__(self, worker: Worker, plain: Any) -> None:
        self.worker = worker
        self.plain = plain
        self.signature = inspect.signature(plain)

    def __call__(self, *given: Any, **options: Any) -> Any:
        """Train as `fit` of Keras does, with its arguments."""
        bound = self.signature.bind(*given, **options)
        bound.apply_defaults()
        arguments: dict[str, Any] = bound.arguments
        arguments["validation_data"], data = _split(arguments)
        arguments["x"] = shared(self.worker, _loader(data, arguments["batch_size"] or 32, arguments["shuffle"]), counts=False)
        arguments |= {"y": None, "sample_weight": None, "batch_size": None, "validation_split": 0.0}
        arguments["callbacks"] = [_MeanMetrics(self.worker), *self._callbacks(arguments["callbacks"])]
        arguments["verbose"] = arguments["verbose"] if self.worker.rank == 0 else 0
        return self.plain(**arguments)

    def _callbacks(self, callbacks: Any) -> list[Any]:
        every = [] if callbacks is None else callbacks if isinstance(callbacks, list) else [callbacks]
        if any(isinstance(each, keras.callbacks.BackupAndRestore) for each in every):
            raise CompositionError(
                "keras.callbacks.BackupAndRestore would restore one worker's model and epoch only: leave it out, and give the run "
                "checkpoint=... and every=..., which restore all workers."
            )
        return [each for each in every if self.worker.rank == 0 or not isinstance(each, _WRITING)]


class _Keras:
    """A `ForeignRule`: an optimizer of Keras's, with the method that steps."""

    def __init__(self, optimizer: Any, variables: Sequence[Any], apply: Any) -> None:
        self.optimizer = optimizer
        self.variables = variables
        self.plain = apply

    def state(self) -> Sequence[Tensor]:
        """The variables of Keras's optimizer as tensors."""
        return [each.value.data for each in self.optimizer.variables]

    def take(self, state: Sequence[Tensor]) -> None:
        """Take over `state` into the optimizer's variables."""
        for variable, held in zip(self.optimizer.variables, state, strict=True):
            variable.value.data.copy_(held)

    def apply(self, parameters: Sequence[nn.Parameter]) -> None:
        """Step on the gradients as Keras's optimizer does."""
        self.plain([each.grad for each in parameters], self.variables)


class _MeanMetrics(keras.callbacks.Callback):  # type: ignore[misc]
    """Puts the mean over workers in the place of each metric of an epoch, before other callbacks see it."""

    def __init__(self, worker: Worker) -> None:
        super().__init__()
        self.worker = worker

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        for name in logs or {}:
            logs[name] = self.worker.mean(float(logs[name]))  # type: ignore[index]


class _Rows(Dataset[Any]):
    """Arrays of equal length in any structure of Keras's, sample by sample."""

    def __init__(self, arrays: Any) -> None:
        self.arrays = arrays

    def __len__(self) -> int:
        return len(keras.tree.flatten(self.arrays)[0])

    def __getitem__(self, index: int) -> Any:
        return keras.tree.map_structure(lambda array: torch.as_tensor(array[index]), self.arrays)


def _loader(data: tuple[Any, ...], batch_size: int, shuffle: bool) -> DataLoader[Any]:
    first = data[0]
    if isinstance(first, DataLoader):
        return first
    if not all(hasattr(leaf, "__len__") and hasattr(leaf, "__getitem__") and hasattr(leaf, "shape") for leaf in keras.tree.flatten(first)):
        raise DataError(
            f"{type(first).__name__} cannot be shared out: give fit arrays, tensors or a torch DataLoader. (A DataLoader over "
            "worker.shard(iterable) takes any iterable.)"
        )
    return DataLoader(_Rows(data), batch_size=batch_size, shuffle=shuffle)


def _split(arguments: dict[str, Any]) -> tuple[Any, tuple[Any, ...]]:
    """The validation data, and the training data: their last part is kept for validation where `validation_split` says so."""
    data = tuple(each for each in (arguments["x"], arguments["y"], arguments["sample_weight"]) if each is not None)
    part = arguments["validation_split"]
    if not part or arguments["validation_data"] is not None:
        return arguments["validation_data"], data
    kept = math.floor(len(keras.tree.flatten(data)[0]) * (1 - part))
    first, last = (keras.tree.map_structure(lambda array, cut=cut: array[cut], data) for cut in (slice(kept), slice(kept, None)))
    return last, first
