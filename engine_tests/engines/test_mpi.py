"""Runs by MPI: Open MPI and MPICH."""

from pathlib import Path

import pytest
from laws import a_crew_replaces_a_lost_worker, continues_after_a_loss, has_the_bits_of_processes, names_the_users_error, runs

import polyrhythm as pr

ROOT = ("--allow-run-as-root", "--oversubscribe")


@pytest.fixture(params=[("mpirun.openmpi", ROOT), ("mpiexec.hydra", ())], ids=["Open MPI", "MPICH"])
def on(request: pytest.FixtureRequest) -> pr.launchers.Mpi:
    launcher, options = request.param
    return pr.launchers.Mpi(launcher, options, driver="127.0.0.1")


def test_it_has_the_bits_of_processes(on: pr.launchers.Mpi) -> None:
    has_the_bits_of_processes(on)


@pytest.mark.parametrize("strategy", ["ssp", "gossipgrad", "diloco"])
def test_other_systems_run(on: pr.launchers.Mpi, strategy: str, tmp_path: Path) -> None:
    runs(on, strategy, tmp_path / "record")


def test_it_continues_after_a_loss(on: pr.launchers.Mpi, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    continues_after_a_loss(on, tmp_path, capfd)


def test_it_names_the_users_error(on: pr.launchers.Mpi, tmp_path: Path) -> None:
    names_the_users_error(on, tmp_path)


@pytest.mark.parametrize("kills", [0, 1], ids=["the first", "another"])
def test_a_crew_replaces_a_lost_worker(on: pr.launchers.Mpi, tmp_path: Path, kills: int) -> None:
    a_crew_replaces_a_lost_worker(on, tmp_path, kills=kills)
