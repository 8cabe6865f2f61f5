"""On systems other than Linux virtual time works, and real processes say what they need."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ELSEWHERE = """
import ctypes, importlib.abc, multiprocessing.context, os, signal, socket, sys
import altair, cloudpickle, greenlet, jinja2, msgspec, networkx, numpy, rich.progress, rich.table, safetensors.torch, typer, vl_convert
import torch, torch.utils.data

ABSENT = {"fcntl", "resource", "grp", "pwd", "termios", "polyrhythm.core.shared_memory._native"}
ABSENT |= {"polyrhythm.core.processes.runtime._beats"}

class Absent(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name in ABSENT:
            raise ModuleNotFoundError(f"{name} is Linux's alone", name=name)

sys.meta_path.insert(0, Absent())
for name in ABSENT:
    sys.modules.pop(name, None)
for name in "memfd_create eventfd eventfd_read eventfd_write pidfd_open fork register_at_fork killpg setsid geteuid getuid \\
        pipe2 sched_getaffinity sched_setscheduler WNOHANG".split():
    delattr(os, name)
for name in "SIGKILL SIGCHLD SIGHUP SIGPIPE pthread_sigmask SIG_SETMASK".split():
    delattr(signal, name)
for name in "AF_UNIX CMSG_SPACE SCM_RIGHTS MSG_CMSG_CLOEXEC TCP_INFO TCP_CONGESTION TCP_USER_TIMEOUT send_fds recv_fds".split():
    delattr(socket, name)

del multiprocessing.context.ForkProcess
del multiprocessing.context._concrete_contexts["fork"]

def refuse(*_, **__):
    raise OSError("there is no C library to load")

ctypes.CDLL = refuse
sys.platform = "elsewhere"
"""
TRAINING = """
import polyrhythm as pr

def train(worker):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(32, 4, generator=generator)
    model = torch.nn.Linear(4, 1)
    model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.1))
    worker.evaluate(lambda model: {"loss": model(x).square().mean().item()})
    for (part,) in worker.batches((x,), batch_size=4):
        optimizer.zero_grad()
        model(part).square().mean().backward()
        optimizer.step()
"""


def elsewhere(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """`code` in a Python that has nothing of Linux's."""
    path = os.pathsep.join(sys.path)
    command = [sys.executable, "-W", "error", "-c", ELSEWHERE + TRAINING + code]
    return subprocess.run(command, cwd=folder, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True, check=False)


def test_virtual_time_trains_draws_and_keeps_its_record_where_there_is_no_linux(tmp_path: Path) -> None:
    code = """
for system in ("single", "allreduce", "ssp", "gossipgrad", "onebit", "hogwild", "byteps", "horovod", "streaming-diloco"):
    run = pr.run(train, workers=3, strategy=system, on=pr.Simulator(network="slow"), directory=f"runs/{system}")
    assert run.final["loss"] > 0, system
pr.simulate_timing(train, workers=3, strategy="ssp", steps=5, on=pr.Simulator(network="slow"))
run.plot().save("curve.svg")
"""
    done = elsewhere(code, tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "curve.svg").stat().st_size > 1000
    assert (tmp_path / "runs" / "ssp" / "run.json").exists()


@pytest.mark.long
def test_the_commands_compare_and_report_where_there_is_no_linux(tmp_path: Path) -> None:
    code = """
from polyrhythm.tools.cli import main
for line in ("systems", "networks", "compare chars-gpt --systems single,ssp --workers 2 --on simulator --network slow --out here "
             "--set samples=16 --set layers=1 --set width=8 --set heads=1 --set context=8", "report here"):
    sys.argv = ["polyrhythm", *line.split()]
    try:
        main()
    except SystemExit as end:
        assert not end.code, (line, end.code)
"""
    done = elsewhere(code, tmp_path)
    assert done.returncode == 0, done.stderr + done.stdout
    assert (tmp_path / "here" / "report.html").exists()


def test_real_processes_and_parallel_runs_report_that_they_need_linux(tmp_path: Path) -> None:
    code = """
for ask in (pr.Processes, lambda: pr.run(train, workers=2), pr.join):
    try:
        ask()
    except pr.PolyrhythmError as error:
        print(error)
from polyrhythm.tools.cli import main
sys.argv = "polyrhythm compare chars-gpt --systems single --network slow --jobs 2".split()
main()
"""
    done = elsewhere(code, tmp_path)
    assert done.stdout.count("needs Linux, and this is elsewhere: use virtual time") == done.stdout.count("\n") == 3
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert "--jobs 2 needs Linux, and this is elsewhere: leave it out" in done.stderr
