"""Keras's fit as one of many workers'."""

from __future__ import annotations

import os

os.environ["KERAS_BACKEND"] = "torch"

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from framework_examples import CLOSE, changed, original_loss, trained
from torch.utils.data import DataLoader

from polyrhythm.core.processes import Processes
from polyrhythm.core.simulator import Instant, Simulator
from polyrhythm.core.training.run import run
from polyrhythm.errors import CompositionError, DataError
from polyrhythm.integrations.keras import attach

NAME = "keras_model"
pytestmark = pytest.mark.filterwarnings("default")  # Keras warns of what numpy and torch have deprecated


def test_at_most_five_lines_of_the_example_change() -> None:
    assert 0 < changed(NAME) <= 5


def test_two_workers_have_the_loss_of_the_single_process() -> None:
    outcome = trained(NAME, on=Processes())
    assert outcome.final["loss"] == pytest.approx(original_loss(NAME), abs=CLOSE)
    assert outcome.summary.samples == 1408
    assert outcome.summary.weights_sha256 == trained(NAME).summary.weights_sha256


@pytest.mark.parametrize("system", ["diloco", "ssp"])
def test_other_systems_train_it(system: str) -> None:
    assert trained(NAME, system).final["loss"] < 1.2


X = np.random.default_rng(0).normal(size=(40, 3)).astype("float32")
Y = X.sum(axis=1, keepdims=True)


def line(optimizer: Any = None) -> Any:
    keras.utils.clear_session()
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    model.compile(optimizer or keras.optimizers.SGD(0.05, momentum=0.9), "mse")
    return model


def go(train: Any, strategy: str = "allreduce", **options: Any) -> Any:
    return run(train, workers=2, strategy=strategy, on=Simulator(network=Instant()), seed=1, **options)


def test_callbacks_see_the_same_metrics_everywhere_and_worker_0_alone_writes(tmp_path: Path) -> None:
    seen: dict[int, Any] = {}

    def train(worker: Any) -> None:
        model = attach(worker, line())
        callbacks = [
            keras.callbacks.CSVLogger(tmp_path / f"{worker.rank}.csv"),
            keras.callbacks.ModelCheckpoint(tmp_path / f"{worker.rank}.keras"),
            keras.callbacks.EarlyStopping("val_loss", patience=0, min_delta=100.0),
        ]
        history = model.fit(X, Y, batch_size=4, epochs=9, validation_split=0.2, verbose=0, callbacks=callbacks)
        seen[worker.rank] = history.history

    assert go(train, "diloco").summary.samples == 2 * 32
    assert seen[0] == seen[1]
    assert sorted(each.name for each in tmp_path.iterdir()) == ["0.csv", "0.keras"]


def test_a_loader_is_shared_out_as_arrays_are() -> None:
    def train(worker: Any) -> None:
        loader = DataLoader(list(zip(X, Y, strict=True)), batch_size=4, shuffle=True)
        attach(worker, line()).fit(loader, epochs=2, verbose=0)

    assert go(train).summary.samples == 80


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda worker: attach(worker, keras.Sequential([keras.layers.Dense(1)])), CompositionError, "not built or not compiled"),
        (
            lambda worker: attach(worker, line(keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD()))),
            CompositionError,
            "use the policy mixed_bfloat16",
        ),
        (lambda worker: attach(worker, line()).fit(iter([(X, Y)]), verbose=0), DataError, "cannot be shared out: give fit arrays"),
    ],
)
def test_what_would_go_wrong_is_refused(call: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        go(call)


def test_systems_whose_servers_run_the_optimizer_are_refused() -> None:
    with pytest.raises(CompositionError, match="cannot run at a server"):
        go(lambda worker: attach(worker, line()) and None, "softsync")
