"""A classifier of scikit-learn's kind."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets, unique_labels
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor, nn
from torch.nn import functional as F

from polyrhythm.core.training.result import Run
from polyrhythm.errors import DataError
from polyrhythm.sklearn.arrays import dtypes, outputs_of
from polyrhythm.sklearn.fitting import drawn_seed, given_epochs, made, trained


class Classifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Train a torch module to classify, by a run of `workers`: `Classifier(workers=2, strategy="diloco").fit(X, y)`.

    `module` is a torch module with as many outputs as classes, of which a copy is trained, or a function of the numbers of inputs and
    outputs that makes one; by default a `MultilayerPerceptron`. Its outputs are logits, and the loss is their cross-entropy.
    `optimizer(parameters, lr=learning_rate)` makes each worker's optimizer. `batch_size` is that of a worker. `workers`, `strategy` and
    `on` are those of `pr.run`. With `warm_start` another `fit` continues from the weights of the last one, with a new optimizer.

    After `fit` there are `classes_`, `module_`, the trained module, and `run_`, the result of the run.
    """

    module_: nn.Module
    classes_: NDArray[Any]
    run_: Run
    dtype_: np.dtype[Any]

    def __init__(
        self,
        module: Any = None,
        *,
        optimizer: Any = torch.optim.Adam,
        learning_rate: float = 0.01,
        epochs: int = 20,
        batch_size: int = 32,
        workers: int = 1,
        strategy: Any = "allreduce",
        on: Any = None,
        warm_start: bool = False,
        random_state: Any = None,
    ) -> None:
        self.module = module
        self.optimizer = optimizer
        self.learning_rate = learning_rate
        self.epochs = epochs
        self.batch_size = batch_size
        self.workers = workers
        self.strategy = strategy
        self.on = on
        self.warm_start = warm_start
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Train on features (samples, inputs) and labels (samples,) of any type. Raises DataError for new classes in a warm start."""
        warm = self.warm_start and hasattr(self, "module_")
        features, labels = validate_data(self, X, y, dtype=dtypes(self, warm), reset=not warm)
        check_classification_targets(labels)
        return self._train(features, labels, unique_labels(labels), warm, given_epochs(self))

    def partial_fit(self, X: ArrayLike, y: ArrayLike, classes: ArrayLike | None = None) -> Self:
        """Train for one more epoch, on these data; the first call is given all `classes` where `y` does not have them all."""
        begun = hasattr(self, "module_")
        features, labels = validate_data(self, X, y, dtype=dtypes(self, begun), reset=not begun)
        check_classification_targets(labels)
        known = self.classes_ if begun else unique_labels(labels if classes is None else classes)
        return self._train(features, labels, known, begun, 1)

    def predict_proba(self, X: ArrayLike) -> NDArray[Any]:
        """The probability of each class for each sample, (samples, classes), in the order of `classes_`."""
        return self._logits(X).softmax(dim=1).numpy()

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The most probable class of each sample."""
        places = self._logits(X).argmax(dim=1).numpy()
        found: NDArray[Any] = self.classes_[places]
        return found

    def _logits(self, X: ArrayLike) -> Tensor:
        check_is_fitted(self)
        return outputs_of(self.module_, validate_data(self, X, dtype=dtypes(self, fitted=True), reset=False))

    def _train(self, features: NDArray[Any], labels: NDArray[Any], classes: NDArray[Any], continued: bool, epochs: int) -> Self:
        if continued:
            classes = self.classes_
        places = np.searchsorted(classes, labels).clip(max=len(classes) - 1)
        if (wrong := classes[places] != labels).any():
            raise DataError(
                f"{labels[wrong][0]!r} is none of the classes {list(classes)} with which the training began: fit anew without warm_start."
            )
        module = self.module_ if continued else made(self.module, features.shape[1], len(classes), features.dtype, drawn_seed(self))
        self.run_ = trained(self, module, features, places.astype(np.int64, copy=False), F.cross_entropy, epochs)
        self.module_, self.classes_, self.dtype_ = module, classes, features.dtype
        return self
