"""An optimizer that is none of torch's steps as one of torch's would, or the system is refused."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from toy import data, network

from polyrhythm.codec import TouchedRows
from polyrhythm.core.checkpoints.request import Checkpoints
from polyrhythm.core.simulator import Instant, Simulator
from polyrhythm.core.strategy import Exchange, Strategy
from polyrhythm.core.training.run import run
from polyrhythm.errors import CompositionError
from polyrhythm.integrations.foreign import ForeignOptimizer, attach_foreign
from polyrhythm.parameters import Named

RATE, MOMENTUM = 0.1, 0.9


class Heavy:
    """A `ForeignRule`: momentum, with buffers and a count of its own."""

    def __init__(self, parameters: Sequence[nn.Parameter]) -> None:
        self.buffers = [torch.zeros_like(each) for each in parameters]
        self.steps = torch.zeros((), dtype=torch.int64)

    def state(self) -> Sequence[Tensor]:
        return [self.steps, *self.buffers]

    def take(self, state: Sequence[Tensor]) -> None:
        self.steps, *self.buffers = state

    def apply(self, parameters: Sequence[nn.Parameter]) -> None:
        self.steps = self.steps + 1
        for parameter, buffer in zip(parameters, self.buffers, strict=True):
            buffer.mul_(MOMENTUM).add_(parameter.grad)
            parameter.add_(buffer, alpha=-RATE)


def foreign(worker: Any, model: nn.Module) -> torch.optim.Optimizer:
    optimizer = ForeignOptimizer(list(model.parameters()), Heavy(list(model.parameters())))
    attach_foreign(worker, model, optimizer)
    return optimizer


def torchs(worker: Any, model: nn.Module) -> torch.optim.Optimizer:
    return worker.attach(model, torch.optim.SGD(model.parameters(), lr=RATE, momentum=MOMENTUM))[1]


def weights(make: Any, system: Any, **options: Any) -> Tensor:
    def train(worker: Any) -> None:
        model = network()
        optimizer = make(worker, model)
        for _ in range(2):
            for x, y in worker.batches(data(), batch_size=8):
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()

    outcome = run(train, workers=2, strategy=system, on=Simulator(network=Instant()), seed=5, **options)
    return torch.cat([each.reshape(-1) for each in outcome.weights.values()])


@pytest.mark.parametrize("system", ["allreduce", "diloco", "sparknet", "ssp", "gossipgrad", "strom", "easgd", "hogwild"])
def test_it_steps_as_an_optimizer_of_torchs(system: str) -> None:
    torch.testing.assert_close(weights(foreign, system), weights(torchs, system))


def test_it_goes_on_where_a_run_was_broken_off(tmp_path: Path) -> None:
    whole = weights(foreign, "diloco", checkpoints=Checkpoints(tmp_path, every=3))
    names = sorted(each.name for each in tmp_path.iterdir())
    assert torch.equal(weights(foreign, "diloco", checkpoints=Checkpoints(resume=tmp_path / names[0])), whole)


def test_systems_that_would_step_in_its_place_are_refused() -> None:
    with pytest.raises(CompositionError, match="ForeignOptimizer cannot run at a server"):
        weights(foreign, "softsync")
    with pytest.raises(CompositionError, match=r"ForeignOptimizer is none of torch.optim's.*under Deferred"):
        weights(foreign, "byteps")
    with pytest.raises(CompositionError, match=r"steps by its own rule on gradients.*whose workers step themselves"):
        weights(foreign, "downpour")


def test_a_strategy_that_steps_part_by_part_is_refused() -> None:
    parts = Strategy(selected=[(Named("*weight"), Exchange(codec=TouchedRows()))])
    with pytest.raises(CompositionError, match=r"2 of 4 parameters have no gradient.*one exchange for all"):
        weights(foreign, parts)
