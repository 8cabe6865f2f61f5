"""Digits by softmax regression with a penalty, which is convex: on whole batches, in minibatches, and by scipy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.optimize
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from polyrhythm.core import rng
from polyrhythm.core.job_files.worker import WorkloadWorker
from polyrhythm.workloads.digits import TEST_SAMPLES, TRAINING_SAMPLES, digits
from polyrhythm.workloads.workload import Metric, Sizes

_PENALTY = 1e-2


def model_of(seed: int) -> nn.Module:
    """650 weights of float64, which begin small and at random."""
    model = nn.Linear(64, 10).double()
    draw = rng.generator(seed, "whole-digits", "weights")
    with torch.no_grad():
        for each in model.parameters():
            each.copy_(0.1 * torch.randn(each.shape, generator=draw, dtype=torch.float64))
    return model


def samples() -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """Pixels (n, 64), float64, and classes (n,), to train and to test on."""
    training, test = ((images.flatten(1).double(), classes) for images, classes in (each.tensors for each in digits()))
    return training, test


def objective(model: nn.Module) -> Callable[[Tensor, Tensor], Tensor]:
    """The mean cross-entropy of samples, with the penalty."""
    return lambda x, y: F.cross_entropy(model(x), y) + _PENALTY / 2 * sum(each.square().sum() for each in model.parameters())


def measured(model: nn.Module) -> dict[str, float]:
    """Accuracy on held-out digits, and the objective."""
    training, (x, y) = samples()
    return {"accuracy": (model(x).argmax(dim=1) == y).double().mean().item(), "objective": objective(model)(*training).item()}


def optimizer_of(model: nn.Module, iterations: int) -> torch.optim.LBFGS:
    """L-BFGS with a line search by the strong Wolfe conditions."""
    options: dict[str, Any] = {"tolerance_grad": 1e-9, "tolerance_change": 1e-15, "line_search_fn": "strong_wolfe"}
    return torch.optim.LBFGS(model.parameters(), max_iter=iterations, **options)


@dataclass(frozen=True, slots=True)
class WholeDigits:
    """`steps` of so many `iterations` of L-BFGS, on portions of `batch_size` samples of which `copies` workers compute one at most."""

    steps: int = 4
    iterations: int = 20
    batch_size: int = 45
    copies: int = 2

    name: ClassVar[str] = "whole-digits"
    description: ClassVar[str] = "softmax regression on digits by L-BFGS on whole batches"
    metric: ClassVar[Metric] = Metric("accuracy", higher_is_better=True)

    @property
    def sizes(self) -> Sizes:
        return Sizes(TRAINING_SAMPLES, TEST_SAMPLES, self.batch_size)

    def __call__(self, worker: Any) -> None:
        """Train once, as one of the workers."""
        model = model_of(worker.seed)
        optimizer = optimizer_of(model, self.iterations)
        batch = worker.whole_batch(model, optimizer, samples()[0], objective(model), portion=self.batch_size, copies=self.copies)
        worker.evaluate(measured)
        for _ in worker.range(self.steps):
            optimizer.step(batch)  # type: ignore[no-untyped-call]

    def alone(self, seed: int) -> dict[str, Tensor]:
        """The weights that torch's L-BFGS comes to in one process."""
        model, training = model_of(seed), samples()[0]
        optimizer = optimizer_of(model, self.iterations)

        def closure() -> Tensor:
            optimizer.zero_grad()
            loss = objective(model)(*training)
            loss.backward()  # type: ignore[no-untyped-call]
            return loss

        for _ in range(self.steps):
            optimizer.step(closure)  # type: ignore[no-untyped-call]
        return {name: each.detach() for name, each in model.named_parameters()}


@dataclass(frozen=True, slots=True)
class MinibatchDigits:
    """The same objective by SGD, one epoch after another."""

    epochs: int = 3
    batch_size: int = 16
    learning_rate: float = 0.02

    name: ClassVar[str] = "minibatch-digits"
    description: ClassVar[str] = "softmax regression on digits in minibatches"
    metric: ClassVar[Metric] = Metric("accuracy", higher_is_better=True)

    @property
    def sizes(self) -> Sizes:
        return Sizes(TRAINING_SAMPLES, TEST_SAMPLES, self.batch_size)

    def __call__(self, worker: WorkloadWorker) -> None:
        """Train once, as one of the workers."""
        model = model_of(worker.seed)
        optimizer: torch.optim.Optimizer = torch.optim.SGD(model.parameters(), lr=self.learning_rate)
        worker.attach(model, optimizer)
        worker.evaluate(measured)
        training = torch.utils.data.TensorDataset(*samples()[0])
        for _ in worker.epochs(self.epochs):
            for x, y in worker.batches(training, batch_size=self.batch_size):
                optimizer.zero_grad()
                objective(model)(x, y).backward()  # type: ignore[no-untyped-call]
                optimizer.step()


def by_scipy() -> np.ndarray:
    """The weights (650,) of the minimum, by scipy's L-BFGS-B from zero."""
    (x, y), penalty = samples()[0], _PENALTY
    pixels, wanted = x.numpy(), np.eye(10)[y.numpy()]

    def value(flat: np.ndarray) -> tuple[float, np.ndarray]:
        weights, biases = flat[:640].reshape(10, 64), flat[640:]
        scores = pixels @ weights.T + biases
        scores -= scores.max(axis=1, keepdims=True)
        logs = scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))
        wrong = (np.exp(logs) - wanted) / len(pixels)
        gradient = np.concatenate([(wrong.T @ pixels).ravel(), wrong.sum(axis=0)]) + penalty * flat
        return float(-(wanted * logs).sum() / len(pixels) + penalty / 2 * flat @ flat), gradient

    options = {"maxiter": 2000, "maxfun": 4000, "ftol": 1e-16, "gtol": 1e-9}
    found = scipy.optimize.minimize(value, np.zeros(650), jac=True, method="L-BFGS-B", options=options)
    weights: np.ndarray = found.x
    return weights
