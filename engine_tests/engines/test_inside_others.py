"""`pr.join` inside the loops of engines that start training functions themselves: Ray Train and Spark's TorchDistributor."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import ray
from laws import STEPS, expected, training
from pyspark.ml.torch.distributor import TorchDistributor
from pyspark.sql import SparkSession
from ray.train import RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer

import polyrhythm as pr

pytestmark = [  # Ray Train and Spark warn of their own modules
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),  # Spark leaves the pipe of its processes open
]


def loop(folder: Path, strategy: str) -> Callable[..., str]:
    """A function that joins a run, trains and leaves; each worker leaves the digest of its weights and its steps in a file."""
    train = training()

    def inside(config: Any = None) -> str:
        worker = pr.join(strategy, seed=3)
        train(worker)
        run = worker.leave()
        text = f"{run.summary.weights_sha256} {run.summary.steps}"
        (folder / f"rank-{worker.rank}").write_text(text, "utf-8")
        return text

    return inside


def left(folder: Path) -> list[list[str]]:
    """What each worker has left."""
    return [(folder / f"rank-{rank}").read_text("utf-8").split() for rank in range(2)]


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    ray.init(num_cpus=4)
    yield
    ray.shutdown()


@pytest.fixture(scope="module")
def session() -> Iterator[SparkSession]:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = SparkSession.builder.master("local-cluster[2,1,1024]").config("spark.ui.enabled", "false").getOrCreate()
    yield session
    session.stop()


@pytest.mark.parametrize("strategy", ["allreduce", "ssp"])
def test_inside_a_torch_trainer(cluster: None, tmp_path: Path, strategy: str) -> None:
    trainer = TorchTrainer(
        loop(tmp_path, strategy), scaling_config=ScalingConfig(num_workers=2), run_config=RunConfig(storage_path=str(tmp_path / "ray"))
    )
    trainer.fit()
    (digest, steps), (_, other) = left(tmp_path)
    assert (int(steps), int(other)) == (STEPS, STEPS)
    assert strategy != "allreduce" or digest == expected().summary.weights_sha256


@pytest.mark.parametrize("local", [True, False], ids=["on the driver's host", "on executors"])
def test_inside_a_torch_distributor(session: SparkSession, tmp_path: Path, local: bool) -> None:
    TorchDistributor(num_processes=2, local_mode=local, use_gpu=False).run(loop(tmp_path, "allreduce"))
    (digest, steps), (_, other) = left(tmp_path)
    assert (int(steps), int(other)) == (STEPS, STEPS)
    assert digest == expected().summary.weights_sha256
