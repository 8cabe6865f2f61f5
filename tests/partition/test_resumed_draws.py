"""Random numbers by place go on where a checkpoint was written, on the same mesh and on others."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import polyrhythm as pr
from polyrhythm.partition import Columns, DropByPlace, Pipelined, Rows


class Chain(nn.Sequential):
    def __init__(self) -> None:
        super().__init__(
            nn.Linear(10, 16), nn.Dropout(0.5), nn.Linear(16, 12), nn.Tanh(), nn.Linear(12, 16), nn.Dropout(0.5), nn.Linear(16, 4)
        )


def samples() -> tuple[Tensor, Tensor]:
    x = torch.randn(96, 10, generator=torch.Generator().manual_seed(0))
    return x, x[:, :4].argmax(1)


def train(worker: pr.Worker, until: int) -> None:
    model = Chain()
    optimizer: torch.optim.Optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model, optimizer = worker.attach(model, optimizer, loss=F.cross_entropy)
    for epoch in worker.epochs(until):
        for x, y in worker.batches(samples(), batch_size=24 // worker.replicas):
            optimizer.zero_grad()
            worker.train_step(x, y)
            optimizer.step()
        if epoch < until - 1:
            worker.save()


DROP = {"1": DropByPlace(), "5": DropByPlace()}
WHOLE = (pr.Mesh(dp=1), pr.Cut(DROP))
TENSOR = (pr.Mesh(tp=2), pr.Cut({"2": Columns(), "4": Rows(), **DROP}))
STAGES = (pr.Mesh(pp=2), pr.Cut(DROP, pipeline=Pipelined(micro_batches=2)))


def run(layout: tuple[pr.Mesh, pr.Cut], until: int, saved: Path, resume: bool) -> pr.Run:
    mesh, cut = layout
    checkpoints = pr.Checkpoints(saved, resume=resume)
    return pr.run(partial(train, until=until), mesh=mesh, cut=cut, strategy="allreduce", on=pr.Simulator(), checkpoints=checkpoints)


@pytest.mark.parametrize("layouts", [(WHOLE, WHOLE), (TENSOR, TENSOR), (STAGES, STAGES), (WHOLE, TENSOR, WHOLE), (WHOLE, STAGES, TENSOR)])
def test_masks_go_on(layouts: tuple[Any, ...], tmp_path: Path) -> None:
    runs = [run(layout, number + 2, tmp_path / "saved", number > 0) for number, layout in enumerate(layouts)]
    undisturbed = run(layouts[0], len(layouts) + 1, tmp_path / "other", False)
    for name, value in undisturbed.weights.items():
        torch.testing.assert_close(runs[-1].weights[name], value, rtol=1e-5, atol=1e-6)
