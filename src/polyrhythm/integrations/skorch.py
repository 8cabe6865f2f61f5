"""skorch's nets, estimators of scikit-learn's kind, as one of many workers."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from skorch.callbacks import Callback, Checkpoint, GradientNormClipping, TrainEndCheckpoint
from torch import Tensor
from torch.utils.data import DataLoader

from polyrhythm.core.training.worker import Worker
from polyrhythm.errors import CompositionError, DataError
from polyrhythm.integrations.attached import attach, clip
from polyrhythm.integrations.loaders import shared

_WRITING = (Checkpoint, TrainEndCheckpoint)


class OnWorker(Callback):  # type: ignore[misc]
    """For `NeuralNet(..., callbacks=[OnWorker(worker), ...])`: `fit` is that of one of many workers. Put it first.

    The optimizer is attached when the training begins, training data are shared out, GradientNormClipping clips merged gradients, worker 0
    prints and saves, and later callbacks see the mean of the workers' losses and scores. Every worker validates on all of its validation
    data. Raises DataError for an iterator_train that is no DataLoader.
    """

    def __init__(self, worker: Worker) -> None:
        self.worker = worker

    def on_train_begin(self, net: Any, X: Any = None, y: Any = None, **options: Any) -> None:
        attach(self.worker, [net.module_], net.optimizer_)
        self.plain_, net.iterator_train = net.iterator_train, partial(self._loader, net.iterator_train)
        self.clipping_ = [each for _, each in net.callbacks_ if isinstance(each, GradientNormClipping)]
        if any(isinstance(each, Checkpoint) and each.load_best for _, each in net.callbacks_):
            raise CompositionError(
                "Checkpoint(load_best=True) would give one worker the best model, and not the others: leave it out, and load what worker 0 "
                "has saved after worker.finish()."
            )
        left = (GradientNormClipping,) if self.worker.rank == 0 else (GradientNormClipping, *_WRITING)
        net.callbacks_ = [(name, each) for name, each in net.callbacks_ if not isinstance(each, left)]
        if self.worker.rank:
            net.verbose = 0

    def on_train_end(self, net: Any, X: Any = None, y: Any = None, **options: Any) -> None:
        net.iterator_train = self.plain_

    def on_grad_computed(
        self, net: Any, named_parameters: Iterable[tuple[str, Tensor]], X: Any = None, y: Any = None, training: bool = True, **options: Any
    ) -> None:
        for each in self.clipping_:
            clip(self.worker, net.module_.parameters(), each.gradient_clip_value, each.gradient_clip_norm_type)

    def on_epoch_end(self, net: Any, **options: Any) -> None:
        for name, value in list(net.history[-1].items()):
            if isinstance(value, float) and name != "dur":
                net.history.record(name, self.worker.mean(value))

    def _loader(self, plain: Any, dataset: Any, **options: Any) -> DataLoader[Any]:
        loader = plain(dataset, **options)
        if not isinstance(loader, DataLoader):
            raise DataError(f"iterator_train made a {type(loader).__name__}, which cannot be shared out: use a torch DataLoader.")
        return shared(self.worker, loader)
