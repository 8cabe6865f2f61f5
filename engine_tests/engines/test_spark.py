"""Runs on Spark: a cluster of two executors in processes of their own."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from laws import a_crew_replaces_a_lost_worker, continues_after_a_loss, has_the_bits_of_processes, names_the_users_error, runs
from pyspark.sql import SparkSession

import polyrhythm as pr


@pytest.fixture(scope="module")
def on() -> Iterator[pr.launchers.Spark]:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = SparkSession.builder.master("local-cluster[2,1,1024]").config("spark.ui.enabled", "false").getOrCreate()
    yield pr.launchers.Spark(session)
    session.stop()


def test_it_has_the_bits_of_processes(on: pr.launchers.Spark) -> None:
    has_the_bits_of_processes(on)


@pytest.mark.parametrize("strategy", ["ssp", "gossipgrad", "diloco"])
def test_other_systems_run(on: pr.launchers.Spark, strategy: str, tmp_path: Path) -> None:
    runs(on, strategy, tmp_path / "record")


def test_it_continues_after_a_loss(on: pr.launchers.Spark, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    continues_after_a_loss(on, tmp_path, capfd)


def test_it_names_the_users_error(on: pr.launchers.Spark, tmp_path: Path) -> None:
    names_the_users_error(on, tmp_path)


def test_a_crew_replaces_a_lost_worker(on: pr.launchers.Spark, tmp_path: Path) -> None:
    a_crew_replaces_a_lost_worker(on, tmp_path, workers=2)
