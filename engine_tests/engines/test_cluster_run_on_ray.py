"""`polyrhythm cluster run --through ray` trains jobs on the very nodes that were decided: a Ray cluster of two nodes on this host."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from ray.cluster_utils import Cluster

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # Ray leaves sockets of its nodes open
TRAIN = """
import time
import torch

def train(worker, epochs: int = 2, pause: float = 0.0):
    x = torch.randn(64, 4, generator=torch.Generator().manual_seed(0))
    model = torch.nn.Linear(4, 1)
    model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.1))
    for _ in worker.epochs(epochs):
        for (part,) in worker.batches((x,), batch_size=4):
            optimizer.zero_grad()
            model(part).square().mean().backward()
            optimizer.step()
            time.sleep(pause)
"""
SCRIPT = """
import os, torch, torch.distributed as dist
dist.init_process_group("gloo")
seen = torch.tensor([dist.get_rank() + 1.0])
dist.all_reduce(seen)
open(os.environ["POLYRHYTHM_HOST_ID"], "w").write(str(seen.item()))
dist.destroy_process_group()
"""
PAIR = """
[[jobs]]
name = "pair"
workers = 2
[jobs.train]
job = "{folder}/train.py"

[[jobs]]
name = "script"
workers = 2
[jobs.train]
script = "{folder}/ddp.py"
"""
CREW = """
[[jobs]]
name = "crew"
workers = 2
min_workers = 1
[jobs.train]
job = "{folder}/train.py"
set = {{epochs = 40, pause = 0.1}}
"""


@dataclass(frozen=True)
class Nodes:
    """A cluster, and its nodes by the hosts' names."""

    cluster: Any
    named: dict[str, Any]


@pytest.fixture(scope="module")
def nodes() -> Iterator[Nodes]:
    """A head without cores, which has the driver, and two nodes with a host's name each."""
    found = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    yield Nodes(found, {name: found.add_node(num_cpus=1, labels={"polyrhythm.dev/host": name}) for name in ("anna", "ben")})
    found.shutdown()


def _begun(folder: Path, nodes: Nodes, jobs: str, hosts: tuple[str, ...] = ("anna", "ben")) -> subprocess.Popen[str]:
    (folder / "site.json").write_text(json.dumps({"name": "s", "hosts": [{"name": name, "cores": 1} for name in hosts]}))
    for name, text in (("train.py", TRAIN), ("ddp.py", SCRIPT), ("jobs.toml", jobs.format(folder=folder))):
        (folder / name).write_text(text)
    command = [sys.executable, "-m", "polyrhythm", "cluster", "run", "site.json", "jobs.toml", "--out", "runs", "--json"]
    words = [*command, "--through", "ray", "--engine", f"address={nodes.cluster.address}"]
    return subprocess.Popen(words, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ)


def _ended(folder: Path, running: subprocess.Popen[str]) -> tuple[int, dict[str, Any], str]:
    printed, said = running.communicate(timeout=500)
    logs = "".join(log.read_text() for log in folder.glob("runs/*/*.log"))
    return running.returncode, {job["name"]: job["state"] for job in json.loads(printed)["jobs"]} if printed else {}, said + logs


def test_gangs_of_functions_and_of_scripts_are_on_the_nodes_of_their_placement(nodes: Nodes, tmp_path: Path) -> None:
    code, jobs, said = _ended(tmp_path, _begun(tmp_path, nodes, PAIR))
    assert (code, jobs) == (0, {"pair": "ended", "script": "ended"}), said
    assert "pair runs on anna (1), ben (1)" in said
    assert "script waits: needs 2 workers" in said


def test_a_host_that_is_no_node_is_refused(nodes: Nodes, tmp_path: Path) -> None:
    running = _begun(tmp_path, nodes, PAIR, hosts=("anna", "carl"))
    code, _, said = _ended(tmp_path, running)
    assert code == 2
    assert "Ray has no node 'carl'" in said


def test_a_crew_goes_on_where_a_node_is_lost(nodes: Nodes, tmp_path: Path) -> None:
    running = _begun(tmp_path, nodes, CREW)
    deadline = time.monotonic() + 300
    while len(list(tmp_path.glob("runs/crew/attempt-1/*/*/events.jsonl"))) < 2:
        assert running.poll() is None, "".join(_ended(tmp_path, running)[2:])
        assert time.monotonic() < deadline
        time.sleep(0.2)
    nodes.cluster.remove_node(nodes.named["ben"], allow_graceful=False)
    code, jobs, said = _ended(tmp_path, running)
    assert (code, jobs) == (0, {"crew": "ended"}), said
    assert "ben is dead" in said
    assert "crew runs on anna (1)" in said
    assert not (tmp_path / "runs" / "crew" / "attempt-2").exists()
