"""skorch's estimators as one of many workers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from framework_examples import CLOSE, changed, original_loss, trained
from skorch import NeuralNetRegressor
from skorch.callbacks import Checkpoint, EarlyStopping

from polyrhythm.core.processes import Processes
from polyrhythm.core.simulator import Instant, Simulator
from polyrhythm.core.training.run import run
from polyrhythm.errors import DataError
from polyrhythm.integrations.skorch import OnWorker

NAME = "skorch_net"
pytestmark = pytest.mark.filterwarnings("default")  # skorch warns of what scikit-learn has deprecated


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


def fitted(worker: Any, *callbacks: Any, **options: Any) -> Any:
    torch.manual_seed(0)
    net = NeuralNetRegressor(torch.nn.Linear, module__in_features=3, module__out_features=1, lr=0.05, batch_size=4, **options)
    return net.set_params(callbacks=[OnWorker(worker), *callbacks]).fit(X, Y)


def go(train: Any, strategy: str = "allreduce") -> Any:
    return run(train, workers=2, strategy=strategy, on=Simulator(network=Instant()), seed=1)


def test_losses_are_those_of_all_and_worker_0_alone_saves_and_prints(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    seen: dict[int, Any] = {}

    def train(worker: Any) -> None:
        net = fitted(
            worker,
            Checkpoint(dirname=tmp_path / str(worker.rank)),
            EarlyStopping(patience=1, threshold=100.0, threshold_mode="abs", sink=lambda text: None),
            iterator_train__shuffle=True,
            max_epochs=9,
        )
        seen[worker.rank] = [(row["train_loss"], row["valid_loss"]) for row in net.history]

    assert go(train, "diloco").summary.samples == 32 * len(seen[0])
    assert seen[0] == seen[1]
    assert len(seen[0]) < 9
    assert capsys.readouterr().out.count("train_loss") == 1
    assert list((tmp_path / "0").iterdir())
    assert not list((tmp_path / "1").glob("*"))


def test_an_iterator_that_is_no_loader_is_refused() -> None:
    with pytest.raises(DataError, match="iterator_train made a list, which cannot be shared out"):
        go(lambda worker: fitted(worker, iterator_train=lambda dataset, **options: [], max_epochs=1) and None)
