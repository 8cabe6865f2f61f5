"""A checkpoint, and a training function, a model or an optimizer that did not write it: refused with a sentence in every system."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import polyrhythm as pr
from polyrhythm.errors import CheckpointError


def linear() -> nn.Module:
    return nn.Linear(6, 1)


def sgd(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.01)


class Kept:
    """An object of the user's, whose state has one entry, of this name."""

    def __init__(self, name: str) -> None:
        self.name = name

    def state_dict(self) -> dict[str, int]:
        return {self.name: 1}

    def load_state_dict(self, state: dict[str, int]) -> None:
        _ = state[self.name]


def training(
    model: Callable[[], nn.Module] = linear, optimizer: Callable[[Any], torch.optim.Optimizer] = sgd, kept: object = None
) -> Callable[[pr.Worker], None]:
    def train(worker: pr.Worker) -> None:
        made = model()
        steps = optimizer(made)
        worker.attach(made, steps)
        if kept is not None:
            worker.keep(kept=kept)
        for (inputs,) in worker.batches((torch.ones(16, 6),), 2):
            steps.zero_grad()
            made(inputs).sum().backward()
            steps.step()

    return train


OTHERS = {
    "an optimizer with other options": training(optimizer=lambda model: torch.optim.Adam(model.parameters())),
    "parameters in other groups": training(
        optimizer=lambda model: torch.optim.SGD([{"params": [parameter]} for parameter in model.parameters()], lr=0.01)
    ),
    "weights of another shape": training(lambda: nn.Linear(6, 2)),
    "weights of another name": training(lambda: nn.Sequential(nn.Linear(6, 1))),
    "a frozen parameter": training(optimizer=lambda model: torch.optim.SGD([model.weight], lr=0.01)),
    "another object that is kept": training(kept=Kept("theirs")),
}


@pytest.mark.parametrize("system", ["allreduce", "mxnet", "ssp", "easgd", "byteps", "gossipgrad"])
def test_what_did_not_write_a_checkpoint_cannot_resume_it(system: str, tmp_path: Path) -> None:
    on = pr.Simulator(network="lan")
    pr.run(training(kept=Kept("ours")), strategy=system, on=on, checkpoints=pr.Checkpoints(tmp_path, every=3))
    for what, other in OTHERS.items():
        with pytest.raises(
            CheckpointError, match=r"resume it with the training function|Resume with the training function|resume with (SGD|the groups)"
        ) as refused:
            pr.run(other, strategy=system, on=on, checkpoints=pr.Checkpoints(resume=tmp_path / "step-00000003"))
        assert "Traceback" not in str(refused.value), what
