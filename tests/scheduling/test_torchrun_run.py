"""`polyrhythm cluster run --through torchrun` trains scripts of torch.distributed, and training functions, by torchrun on each host."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

# the same way as over ssh: a shell for each host, to which a line is added
SITE = """
name = "loopback"
reach = "env AT={host} sh -c"
[[hosts]]
name = "127.0.0.2"
cores = 1
[[hosts]]
name = "127.0.0.3"
cores = 1
"""
SCRIPT = """
import os, sys, time
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
with open(f"{sys.argv[1]}/{os.environ['AT']}-{rank}-of-{world}-{os.getpid()}", "w") as file:
    file.write(os.environ["POLYRHYTHM_HOST_ID"])
seen = torch.tensor([rank + 1.0])
dist.all_reduce(seen)
assert seen.item() == world * (world + 1) / 2
while not os.path.exists(f"{sys.argv[1]}/enough"):
    dist.all_reduce(seen)
    time.sleep(0.05)
dist.destroy_process_group()
"""
TRAIN = """
import torch

def train(worker, epochs: int = 2):
    x = torch.randn(64, 4, generator=torch.Generator().manual_seed(0))
    model = torch.nn.Linear(4, 1)
    model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.1))
    for _ in worker.epochs(epochs):
        for (part,) in worker.batches((x,), batch_size=4):
            optimizer.zero_grad()
            model(part).square().mean().backward()
            optimizer.step()
"""
JOB = '[[jobs]]\nname = "ddp"\nworkers = 2\n{more}[jobs.train]\nscript = "ddp.py"\narguments = ["{folder}"]\n'


class Running:
    """A `cluster run` of jobs in a folder."""

    def __init__(self, folder: Path, jobs: str) -> None:
        self.folder, self.marks = folder, folder / "marks"
        self.marks.mkdir(exist_ok=True)
        for name, text in (
            ("site.toml", SITE),
            ("ddp.py", SCRIPT),
            ("train.py", TRAIN),
            ("jobs.toml", jobs.format(folder=self.marks, more="")),
        ):
            (folder / name).write_text(text)
        command = [sys.executable, "-m", "polyrhythm", "cluster", "run", "site.toml", "jobs.toml", "--out", "runs", "--json"]
        words = [*command, "--through", "torchrun", "--beat", "1"]
        self.process = subprocess.Popen(words, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def began(self, pattern: str, count: int) -> list[int]:
        """The processes of so many workers that match, when they have met."""
        found: list[Path] = []

        def have() -> bool:
            found[:] = self.marks.glob(pattern)
            return len(found) >= count or self.process.poll() is not None

        _wait(have)
        assert len(found) == count, self.end()
        return [int(each.name.rpartition("-")[2]) for each in found]

    def end(self) -> tuple[int, list[dict[str, object]], str]:
        """The exit code, the jobs, and what was said."""
        printed, said = self.process.communicate(timeout=300)
        logs = "".join(log.read_text() for log in self.folder.glob("runs/*/*.log"))
        return self.process.returncode, list(json.loads(printed)["jobs"]) if printed else [], said + logs


def _wait(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 240
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def _is_there(process: int) -> bool:
    with suppress(FileNotFoundError):
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


@pytest.mark.long
def test_a_script_is_one_group_on_the_hosts_of_its_placement(tmp_path: Path) -> None:
    running = Running(tmp_path, JOB + '[[jobs]]\nname = "own"\nworkers = 2\n[jobs.train]\njob = "train.py"\n')
    running.began("127.0.0.2-0-of-2-*", 1)
    running.began("127.0.0.3-1-of-2-*", 1)
    assert {file.read_text() for file in running.marks.iterdir()} == {"127.0.0.2", "127.0.0.3"}
    (running.marks / "enough").touch()
    code, jobs, said = running.end()
    assert (code, {job["name"]: job["state"] for job in jobs}) == (0, {"ddp": "ended", "own": "ended"}), said
    assert list((tmp_path / "runs" / "own").glob("attempt-1/*/events.jsonl"))


@pytest.mark.long
def test_a_lost_host_ends_all_workers_and_a_job_that_may_shrink_begins_with_fewer(tmp_path: Path) -> None:
    running = Running(tmp_path, JOB.replace("{more}", "min_workers = 1\n"))
    first = running.began("*-of-2-*", 2)
    agents = json.loads((tmp_path / "runs" / "cluster.json").read_text())["agents"]
    os.kill(agents["127.0.0.2"], signal.SIGKILL)
    running.began("127.0.0.3-0-of-1-*", 1)
    assert not any(_is_there(process) for process in first)
    (running.marks / "enough").touch()
    code, _, said = running.end()
    assert code == 0, said
    assert "127.0.0.2 is dead" in said


@pytest.mark.long
def test_no_worker_outlives_a_scheduler_that_is_killed_and_another_goes_on(tmp_path: Path) -> None:
    running = Running(tmp_path, JOB)
    workers = running.began("*-of-2-*", 2)
    running.process.kill()
    running.process.communicate()
    _wait(lambda: not any(_is_there(process) for process in workers))
    again = Running(tmp_path, JOB)
    again.began("*-of-2-*", 4)
    (again.marks / "enough").touch()
    code, jobs, said = again.end()
    assert (code, jobs[0]["attempt"]) == (0, 2), said
    assert (tmp_path / "runs" / "ddp" / "worker-3.log").exists()
