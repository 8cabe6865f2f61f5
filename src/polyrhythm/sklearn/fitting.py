"""What `fit` of both estimators does: it makes a module, and trains it in a run."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from torch import Tensor, nn

from polyrhythm.core.settings import shown, whole_number
from polyrhythm.core.training.result import Run
from polyrhythm.core.training.run import run
from polyrhythm.core.training.worker import Worker
from polyrhythm.errors import CompositionError
from polyrhythm.sklearn.arrays import tensor_of
from polyrhythm.sklearn.perceptron import MultilayerPerceptron

Loss = Callable[[Tensor, Tensor], Tensor]


def drawn_seed(estimator: Any) -> int:
    """A seed by the estimator's `random_state`: of a number always the same one."""
    return int(check_random_state(estimator.random_state).randint(np.iinfo(np.int32).max))


def made(module: Any, inputs: int, outputs: int, dtype: np.dtype[Any], seed: int) -> nn.Module:
    """A module for these sizes, with weights drawn by `seed`: of a given one a copy, with its own weights.

    Raises CompositionError for what is neither a module, nor makes one.
    """
    make = MultilayerPerceptron() if module is None else module
    if not callable(make) or isinstance(make, type):
        raise CompositionError(
            f"module={shown(module)} makes no module: give a torch module, or a function of the numbers of inputs and outputs."
        )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        own = deepcopy(make) if isinstance(make, nn.Module) else make(inputs, outputs)
    if not isinstance(own, nn.Module):
        raise CompositionError(f"module={shown(module)} made a {type(own).__name__}: it should return a torch module.")
    return own.to(torch.from_numpy(np.empty(0, dtype)).dtype)


def trained(estimator: Any, module: nn.Module, features: NDArray[Any], targets: NDArray[Any], loss: Loss, epochs: int) -> Run:
    """Train `module` as the settings of `estimator` say, and give it the weights of the result.

    The run has the estimator's workers, strategy and runtime. In virtual time workers read the arrays themselves; processes get copies.
    """
    data, size = (tensor_of(features), tensor_of(targets)), _positive("batch_size", estimator.batch_size)
    optimizer, rate = estimator.optimizer, estimator.learning_rate

    def train(worker: Worker) -> None:
        own = deepcopy(module).to(worker.device).train()  # workers of virtual time share a process
        own, stepped = worker.attach(own, optimizer(own.parameters(), lr=rate))
        for _ in worker.epochs(epochs):
            for x, y in worker.batches(data, batch_size=size):
                stepped.zero_grad()
                error = loss(own(x.to(worker.device)), y.to(worker.device))
                error.backward()  # type: ignore[no-untyped-call]
                stepped.step()
            worker.report(loss=error.detach())

    found = run(train, workers=estimator.workers, strategy=estimator.strategy, on=estimator.on, seed=drawn_seed(estimator))
    module.load_state_dict(found.weights)
    return found


def given_epochs(estimator: Any) -> int:
    """The epochs of a whole fit."""
    return _positive("epochs", estimator.epochs)


def _positive(name: str, given: object) -> int:
    number = whole_number(name, given, "1 or more")
    if number < 1:
        raise CompositionError(f"{name}={number} trains nothing: give 1 or more.")
    return number
