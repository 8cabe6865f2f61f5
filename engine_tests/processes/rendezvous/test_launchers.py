"""Scripts that call `pr.join` under the real launchers: MPI's two families, and torchrun."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import polyrhythm as pr

from .joining import train

SCRIPT = str(Path(__file__).with_name("joining.py"))
OPEN_MPI = ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "-n"]
HYDRA = ["mpiexec.hydra", "-n"]
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node"]
SECONDS = 180.0


@cache
def expected(workers: int) -> str:
    """The weights of the same run on processes of our own."""
    summary = pr.run(train, workers=workers, strategy="allreduce", on=pr.Processes(cuda=False), seed=1).summary
    return f"sha {summary.weights_sha256} of {workers}"


def launched(launcher: list[str], workers: int, directory: Path, deed: str = "nothing", **environment: str) -> tuple[int, str]:
    """The exit code and the output of the script under `launcher`."""
    inner = [] if launcher[0] == sys.executable else [sys.executable]
    command = [*launcher, str(workers), *inner, SCRIPT, deed, str(directory)]
    given = {**os.environ, "OMP_NUM_THREADS": "1", **environment}
    ended = subprocess.run(command, capture_output=True, text=True, env=given, timeout=SECONDS, check=False, start_new_session=True)
    return ended.returncode, ended.stdout + ended.stderr


def test_open_mpi(tmp_path: Path) -> None:
    code, output = launched(OPEN_MPI, 2, tmp_path)
    assert (code, expected(2) in output) == (0, True), output


def test_mpich(tmp_path: Path) -> None:
    code, output = launched(HYDRA, 3, tmp_path)
    assert (code, expected(3) in output) == (0, True), output


def test_open_mpi_inside_a_process_group_and_with_a_secret(tmp_path: Path) -> None:
    code, output = launched(OPEN_MPI, 2, tmp_path, "group of MPI", POLYRHYTHM_SECRET="a secret for this test", POLYRHYTHM_BIND="127.0.0.1")
    assert (code, expected(2) in output) == (0, True), output
    assert "is not protected" not in output


def test_torchrun_through_the_store_of_its_agent(tmp_path: Path) -> None:
    code, output = launched([*TORCHRUN[:-1], "--standalone", TORCHRUN[-1]], 2, tmp_path)
    assert (code, expected(2) in output) == (0, True), output


def test_torchrun_inside_a_process_group(tmp_path: Path) -> None:
    code, output = launched([*TORCHRUN[:-1], "--standalone", TORCHRUN[-1]], 2, tmp_path, "group")
    assert (code, expected(2) in output) == (0, True), output


def test_a_group_that_holds_the_port_of_rank_zero_is_used_to_meet(tmp_path: Path) -> None:
    """As inside Ray Train and TorchDistributor: no agent keeps the store, and that of the process group is at MASTER_PORT."""
    ranks = [
        subprocess.Popen(
            [sys.executable, SCRIPT, "group", str(tmp_path)],
            env={**os.environ, "RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29517", "LOCAL_RANK": "0"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(2)
    ]
    output = "".join(rank.communicate(timeout=SECONDS)[0] for rank in ranks)
    assert [rank.returncode for rank in ranks] == [0, 0], output
    assert expected(2) in output


def test_torchrun_restarts_after_a_kill_and_goes_on_from_the_last_checkpoint(tmp_path: Path) -> None:
    code, output = launched([*TORCHRUN[:-1], "--standalone", "--max-restarts", "1", TORCHRUN[-1]], 2, tmp_path, "kill")
    assert (tmp_path / "killed").exists()
    assert (code, expected(2) in output) == (0, True), output
    assert re.search(r"worker/1 failed: its connections were lost|exitcode: -9\) local_rank: 1", output), "it is named"
    assert sorted(path.name for path in tmp_path.glob("step-*"))[-1] >= "step-00000018"
