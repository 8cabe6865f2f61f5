"""A regressor of scikit-learn's kind."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import nn
from torch.nn import functional as F

from polyrhythm.core.training.result import Run
from polyrhythm.sklearn.arrays import dtypes, outputs_of
from polyrhythm.sklearn.fitting import drawn_seed, given_epochs, made, trained


class Regressor(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Train a torch module to predict numbers, by a run of `workers`: `Regressor(workers=2, strategy="diloco").fit(X, y)`.

    `module` is a torch module with as many outputs as `y` has columns, of which a copy is trained, or a function of the numbers of inputs
    and outputs that makes one; by default a `MultilayerPerceptron`. `loss(outputs, targets)` is the mean over a batch.
    `optimizer(parameters, lr=learning_rate)` makes each worker's optimizer. `batch_size` is that of a worker. `workers`, `strategy` and
    `on` are those of `pr.run`. With `warm_start` another `fit` continues from the weights of the last one, with a new optimizer.

    After `fit` there are `module_`, the trained module, and `run_`, the result of the run.
    """

    module_: nn.Module
    run_: Run
    dtype_: np.dtype[Any]
    flat_: bool

    def __init__(
        self,
        module: Any = None,
        *,
        loss: Any = F.mse_loss,
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
        self.loss = loss
        self.optimizer = optimizer
        self.learning_rate = learning_rate
        self.epochs = epochs
        self.batch_size = batch_size
        self.workers = workers
        self.strategy = strategy
        self.on = on
        self.warm_start = warm_start
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        """What scikit-learn wants to know: `y` may have several columns."""
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Train on features (samples, inputs) and numbers (samples,) or (samples, outputs)."""
        return self._train(X, y, self.warm_start and hasattr(self, "module_"), given_epochs(self))

    def partial_fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Train for one more epoch, on these data."""
        return self._train(X, y, hasattr(self, "module_"), 1)

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The predicted numbers, of the shape of `y`."""
        check_is_fitted(self)
        found = outputs_of(self.module_, validate_data(self, X, dtype=dtypes(self, fitted=True), reset=False)).numpy()
        return found.reshape(-1) if self.flat_ else found

    def _train(self, X: ArrayLike, y: ArrayLike, continued: bool, epochs: int) -> Self:
        features, numbers = validate_data(self, X, y, dtype=dtypes(self, continued), multi_output=True, y_numeric=True, reset=not continued)
        flat = numbers.ndim == 1
        targets = numbers.astype(features.dtype, copy=False).reshape(len(numbers), -1)
        module = self.module_ if continued else made(self.module, features.shape[1], targets.shape[1], features.dtype, drawn_seed(self))
        self.run_ = trained(self, module, features, targets, self.loss, epochs)
        self.module_, self.flat_, self.dtype_ = module, flat, features.dtype
        return self
