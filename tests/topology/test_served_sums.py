"""Servers that sum what workers push: which pieces of which tensors they get."""

from __future__ import annotations

import torch
from torch import nn

from polyrhythm.core.simulator import Instant, Simulator
from polyrhythm.core.strategy import Strategy
from polyrhythm.core.training.run import run
from polyrhythm.core.training.worker import Worker
from polyrhythm.topology import AllReduce, ByKey, ServedSums


def bracketed(worker: Worker) -> None:
    """One parameter is called as if it were cut from another."""
    model = nn.ParameterDict({"w": torch.ones(3), "w[0:2]": torch.ones(4, 4)})
    model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.1))
    for step in range(2):
        worker.count(1)
        optimizer.zero_grad()
        for parameter in model.parameters():
            parameter.grad = torch.arange(parameter.numel()).view_as(parameter) * (worker.rank + step + 1.0)
        optimizer.step()


def test_rows_go_to_the_tensor_of_which_they_are_whatever_the_names() -> None:
    summed, served = (
        run(bracketed, workers=2, strategy=Strategy(topology=topology), on=Simulator(network=Instant()))
        for topology in (AllReduce(), ServedSums(2, ByKey(largest=8)))
    )
    assert served.summary.weights_sha256 == summed.summary.weights_sha256
