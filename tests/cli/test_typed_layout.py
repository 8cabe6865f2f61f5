"""`polyrhythm run --mesh --cut`: models in parts from the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

JOB = """
import torch
import torch.nn.functional as F
from torch import nn
import polyrhythm as pr
from polyrhythm.partition import BalancedStages, Columns, Pipelined, Rows

halves = pr.Cut({"0": Columns(), "2": Rows()})
stages = pr.Cut(pipeline=Pipelined(micro_batches=2))
unequal = pr.Cut(pipeline=Pipelined(micro_batches=2, division=BalancedStages((6.0, 1.0, 6.0, 1.0, 3.0))))


def train(worker, rate: float = 0.1):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 6), nn.Tanh(), nn.Linear(6, 3))
    model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=rate), loss=F.cross_entropy)
    x = torch.linspace(-1, 1, 384).view(64, 6)
    for inputs, targets in worker.batches((x, x[:, :3].argmax(1)), batch_size=16 // worker.replicas):
        optimizer.zero_grad()
        worker.report(loss=worker.train_step(inputs, targets))
        optimizer.step()
"""


@pytest.fixture
def job(tmp_path: Path) -> Path:
    (tmp_path / "job.py").write_text(JOB)
    return tmp_path / "job.py"


@pytest.mark.parametrize(
    "given",
    [
        ("--mesh", "dp=2,tp=2", "--cut", "halves"),
        ("--mesh", "dp=-1,tp=2", "--cut", "halves", "--workers", "4"),
        ("--mesh", "pp=2,dp=2", "--cut", "stages", "--system", "dp=zero-2"),
        ("--mesh", "site=2,dp=2", "--system", "site=local-sgd,dp=zero-3", "--option", "site.period=1"),
        ("--mesh", "dp=2,pp=1+2", "--cut", "unequal"),
        ("--system", "zero-1", "--workers", "2"),
    ],
)
def test_a_layout_trains_as_one_process(polyrhythm: Any, job: Path, given: tuple[str, ...]) -> None:
    whole = json.loads(polyrhythm("run", job, "--workers", 1, "--on", "simulator", "--json").out)
    parts = polyrhythm("run", job, *given, "--on", "simulator", "--json")
    assert parts.code == 0, parts.err
    assert json.loads(parts.out)["samples"] == whole["samples"] == 64


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("--mesh", "dp=2,tp=2", "--cut", "halfs"), "Name a function|name it with"),
        (("--mesh", "dp=2,tp=2", "--cut", "train"), "name a pr.Cut"),
        (("--mesh", "dp=2", "--cut", "halves"), "has no such axis"),
        (("--cut", "halves"), "give --mesh"),
        (("--mesh", "dp=two"), "write such as dp=2,tp=2"),
        (("--mesh", "dp=2,pp=1+two"), "replicas of 2 and of 3 stages"),
        (("--mesh", "dp=2,pp=1+2+3", "--cut", "unequal"), "3 sizes along"),
        (("--mesh", "dp=2,tp=2", "--cut", "halves", "--workers", "3"), "choose sizes whose product"),
        (("--mesh", "dp=2,tp=2", "--cut", "halves", "--workers", "2"), "choose sizes whose product"),
        (("--mesh", "dp=2", "--system", "dp=diloco,dp=zero-1"), "each once"),
        (("--mesh", "dp=2", "--system", "dp="), "write AXIS=SYSTEM"),
        (("--mesh", "dp=2,tp=2", "--cut", "halves", "--workers", "2..4"), "a crew that changes"),
        (("--mesh", "dp=2", "--system", "dp=zero-4"), "none of zero-1, zero-2 and zero-3"),
        (("--mesh", "dp=2", "--system", "dp=ssp", "--option", "slack=3"), "AXIS.KEY=VALUE"),
        (("--mesh", "dp=2,tp=2", "--cut", "halves", "--system", "tp=allreduce"), "not one of them"),
    ],
)
def test_a_layout_that_cannot_be_is_refused(polyrhythm: Any, job: Path, given: tuple[str, ...], message: str) -> None:
    result = polyrhythm("run", job, *given, "--on", "simulator")
    assert result.code != 0
    assert any(each in result.err for each in message.split("|")), result.err
