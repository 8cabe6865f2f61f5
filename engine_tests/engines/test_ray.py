"""Runs on Ray: a cluster of this host."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import ray
from laws import a_crew_replaces_a_lost_worker, continues_after_a_loss, has_the_bits_of_processes, names_the_users_error, runs

import polyrhythm as pr


@pytest.fixture(scope="module")
def on() -> Iterator[pr.launchers.Ray]:
    ray.init(num_cpus=4)
    yield pr.launchers.Ray()
    ray.shutdown()


def test_it_has_the_bits_of_processes(on: pr.launchers.Ray) -> None:
    has_the_bits_of_processes(on)


@pytest.mark.parametrize("strategy", ["ssp", "gossipgrad", "diloco"])
def test_other_systems_run(on: pr.launchers.Ray, strategy: str, tmp_path: Path) -> None:
    runs(on, strategy, tmp_path / "record")


def test_it_continues_after_a_loss(on: pr.launchers.Ray, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    continues_after_a_loss(on, tmp_path, capfd)


def test_it_names_the_users_error(on: pr.launchers.Ray, tmp_path: Path) -> None:
    names_the_users_error(on, tmp_path)


@pytest.mark.parametrize("kills", [0, 1], ids=["the first", "another"])
def test_a_crew_replaces_a_lost_worker(on: pr.launchers.Ray, tmp_path: Path, kills: int) -> None:
    a_crew_replaces_a_lost_worker(on, tmp_path, kills=kills)
