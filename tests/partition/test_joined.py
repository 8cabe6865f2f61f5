"""Processes that somebody else has started join a run on a mesh: `pr.join(mesh=, cut=)`, as under torchrun."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from scripts import Ended, Forker

import polyrhythm as pr
from polyrhythm.core.records.load import load

SCRIPT = """
import os, sys
import torch
import torch.nn.functional as F
from torch import nn
import polyrhythm as pr
from polyrhythm.partition import Columns, GivenStages, Pipelined, Rows, StagesByReplica, Zero

torch.set_num_threads(1)


def train(worker):
    torch.manual_seed(worker.rank)
    model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 6), nn.Tanh(), nn.Linear(6, 3))
    model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.1), loss=F.cross_entropy)
    x = torch.randn(64, 6, generator=torch.Generator().manual_seed(1))
    for inputs, targets in worker.batches((x, x[:, :3].argmax(1)), batch_size=8):
        optimizer.zero_grad()
        worker.train_step(inputs, targets)
        optimizer.step()


NAMES = {"0": Columns(), "2": Rows()}
UNEQUAL = StagesByReplica((GivenStages((5,)), GivenStages((2, 2, 1))))
LAYOUTS = {
    "tensor": dict(mesh=pr.Mesh(dp=2, tp=2), cut=pr.Cut(NAMES), strategy={"dp": "allreduce"}),
    "stages": dict(mesh=pr.Mesh(dp=2, pp=2), cut=pr.Cut(pipeline=Pipelined(micro_batches=2)), strategy={"dp": Zero(2)}),
    "unequal": dict(mesh=pr.Mesh(dp=2, pp=(1, 3)), cut=pr.Cut(pipeline=Pipelined(micro_batches=2, division=UNEQUAL)), strategy="local-sgd"),
    "shared": dict(mesh=pr.Mesh(dp=-1), strategy=Zero(3)),
    "too few": dict(mesh=pr.Mesh(dp=3, tp=2), cut=pr.Cut(NAMES)),
    "others": dict(mesh=pr.Mesh(dp=2, tp=2), cut=pr.Cut(NAMES if os.environ.get("RANK") == "1" else {"0": Columns(gathered=True)})),
}

if __name__ == "__main__":
    train(worker := pr.join(**LAYOUTS[sys.argv[1]], seed=3, directory="runs", timeout=60))
"""


@pytest.fixture(scope="module")
def forker() -> Iterator[Forker]:
    with closing(Forker()) as found:
        yield found


def started(forker: Forker, layout: str, directory: Path) -> list[Ended]:
    """How four processes ended."""
    (directory / "script.py").write_text(SCRIPT)
    return forker.run(directory, ["script.py", layout], 4, 100)


@pytest.mark.parametrize("layout", ["tensor", "stages", "unequal", "shared"])
def test_processes_that_join_train_as_those_of_a_run(forker: Forker, layout: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert [each.code for each in started(forker, layout, tmp_path)] == [0] * 4
    known: dict[str, object] = {"__name__": "script"}
    monkeypatch.setattr(sys, "argv", ["script.py", layout])
    exec(SCRIPT, known)
    expected = pr.run(known["train"], **known["LAYOUTS"][layout], seed=3, workers=4, on=pr.Simulator())  # type: ignore[index,arg-type]
    record = load(tmp_path / "runs" / "worker-0")
    assert record.summary.weights_sha256 == expected.summary.weights_sha256


@pytest.mark.parametrize(("layout", "message"), [("too few", "choose sizes whose product"), ("others", "the layout")])
def test_meshes_that_do_not_fit_are_refused_at_all_processes(forker: Forker, layout: str, message: str, tmp_path: Path) -> None:
    for each in started(forker, layout, tmp_path):
        assert each.code
        assert message in each.err
