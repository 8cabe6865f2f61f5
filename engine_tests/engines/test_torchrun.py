"""Runs by torchrun: on this host, and on two that a command in the place of ssh pretends."""

import socket
import sys
from pathlib import Path

import pytest
from laws import a_crew_replaces_a_lost_worker, continues_after_a_loss, has_the_bits_of_processes, names_the_users_error, runs, training

import polyrhythm as pr

SSH = """#!/bin/sh
echo "$@" >> {log}
test "$1" = h0 || test "$1" = h1 || exit 255
shift
exec env -i PATH="$PATH" HOME="$HOME" PYTHONPATH="$PYTHONPATH" sh -c "$*"
"""


@pytest.fixture
def on() -> pr.launchers.Torchrun:
    return pr.launchers.Torchrun()


def test_it_has_the_bits_of_processes(on: pr.launchers.Torchrun) -> None:
    has_the_bits_of_processes(on)


@pytest.mark.parametrize("strategy", ["ssp", "gossipgrad", "diloco"])
def test_other_systems_run(on: pr.launchers.Torchrun, strategy: str, tmp_path: Path) -> None:
    runs(on, strategy, tmp_path / "record")


def test_it_continues_after_a_loss(on: pr.launchers.Torchrun, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    continues_after_a_loss(on, tmp_path, capfd)


def test_it_names_the_users_error(on: pr.launchers.Torchrun, tmp_path: Path) -> None:
    names_the_users_error(on, tmp_path)


@pytest.mark.parametrize("kills", [0, 1], ids=["the first", "another"])
def test_a_crew_replaces_a_lost_worker(on: pr.launchers.Torchrun, tmp_path: Path, kills: int) -> None:
    a_crew_replaces_a_lost_worker(on, tmp_path, kills=kills)


@pytest.fixture
def hosts(tmp_path: Path) -> pr.launchers.Torchrun:
    """Two hosts, each with an environment of its own, as ssh gives."""
    ssh = tmp_path / "ssh"
    ssh.write_text(SSH.format(log=tmp_path / "commands"))
    ssh.chmod(0o755)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        endpoint = f"127.0.0.1:{probe.getsockname()[1]}"
    return pr.launchers.Torchrun(hosts=("h0", "h1"), reach=f"{ssh} {{host}}", endpoint=endpoint, driver="127.0.0.1", python=sys.executable)


def test_two_hosts_have_the_bits_of_processes_and_no_command_line_has_the_secret(hosts: pr.launchers.Torchrun, tmp_path: Path) -> None:
    has_the_bits_of_processes(hosts)
    commands = (tmp_path / "commands").read_text()
    assert commands.count("--nproc-per-node=1") == 2
    assert "secret" not in commands


def test_two_hosts_continue_after_a_loss(hosts: pr.launchers.Torchrun, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    continues_after_a_loss(hosts, tmp_path, capfd)


def test_a_crew_on_two_hosts_replaces_a_lost_worker(hosts: pr.launchers.Torchrun, tmp_path: Path) -> None:
    a_crew_replaces_a_lost_worker(hosts, tmp_path, workers=2)


def test_a_host_that_cannot_be_reached_is_named(hosts: pr.launchers.Torchrun) -> None:
    lost = pr.launchers.Torchrun(hosts=("h0", "h7"), reach=hosts.reach, endpoint=hosts.endpoint, driver="127.0.0.1", restarts=0)
    with pytest.raises(pr.PolyrhythmError, match="the command on h7 ended with exit code 255"):
        pr.run(training(), workers=2, on=lost)


def test_workers_that_cannot_be_divided_are_refused(hosts: pr.launchers.Torchrun) -> None:
    with pytest.raises(pr.PolyrhythmError, match="3 workers cannot be divided equally among 2 hosts"):
        pr.run(training(), workers=3, on=hosts)
