"""Runs by torchrun on this host."""

from pathlib import Path

import pytest
from laws import continues_after_a_loss, has_the_bits_of_processes, names_the_users_error, runs

import polyrhythm as pr


@pytest.fixture
def on() -> pr.Torchrun:
    return pr.Torchrun()


def test_it_has_the_bits_of_processes(on: pr.Torchrun) -> None:
    has_the_bits_of_processes(on)


@pytest.mark.parametrize("strategy", ["ssp", "gossipgrad", "diloco"])
def test_other_systems_run(on: pr.Torchrun, strategy: str, tmp_path: Path) -> None:
    runs(on, strategy, tmp_path / "record")


def test_it_continues_after_a_loss(on: pr.Torchrun, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    continues_after_a_loss(on, tmp_path, capfd)


def test_it_names_the_users_error(on: pr.Torchrun, tmp_path: Path) -> None:
    names_the_users_error(on, tmp_path)
