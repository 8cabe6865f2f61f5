"""Fusion settings that are looked for while a run trains: found, and changed at the same step of all workers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from collectives import run_collective
from torch import nn
from toy import Toy, trained, weights

from polyrhythm.core.checkpoints.request import Checkpoints
from polyrhythm.core.kernel.events import Stepped
from polyrhythm.core.processes import Processes
from polyrhythm.core.simulator import Simulator
from polyrhythm.core.strategy import Strategy
from polyrhythm.core.training.run import run
from polyrhythm.errors import CompositionError
from polyrhythm.hardware.devices import Profile
from polyrhythm.hardware.network import Network
from polyrhythm.topology import Autotune, BitVector, Fused
from polyrhythm.topology.collective.gaussian_process import GaussianProcess, expected_improvement
from polyrhythm.topology.collective.tuning import Knobs

SMALL, LARGE = 2**14, 2**22
ON = Simulator(network=Network.uniform("even", "200 Mbit/s", "1 ms"), devices=Profile("measured", (0.03,)))


class Many(nn.Module):
    """Many tensors of equal size."""

    def __init__(self) -> None:
        super().__init__()
        self.parts = nn.ParameterList(torch.zeros(4000) for _ in range(24))

    def forward(self) -> torch.Tensor:
        return torch.stack([part.sum() for part in self.parts]).sum()


def last_step(topology: Any, steps: int) -> float:
    """The seconds of the last of `steps` steps."""

    def train(worker: Any) -> None:
        model = Many()
        model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.0))
        for _ in range(steps):
            worker.count(1)
            optimizer.zero_grad()
            model().backward()
            optimizer.step()

    events = run(train, workers=2, strategy=Strategy(topology=topology), on=ON).outcome.events
    ends = [event.time for event in events if isinstance(event, Stepped) and event.actor == "worker/0"]
    return ends[-1] - ends[-2]


def test_it_comes_within_a_tenth_of_the_best_of_a_grid_in_forty_samples() -> None:
    """From settings that take three times as long."""
    grid = [last_step(Fused(nbytes=nbytes, cycle_seconds=cycle), 2) for nbytes in (SMALL, 2**18, LARGE) for cycle in (5e-4, 5e-3, 5e-2)]
    start = Fused(nbytes=SMALL, cycle_seconds=0.05, tuning=Autotune(steps=1, nbytes=(SMALL, LARGE)))
    assert max(grid) > 2.5 * min(grid)
    assert last_step(start, 1 + 40 + 2) <= 1.1 * min(grid)


@pytest.mark.parametrize("workers", [2, 3])
def test_all_change_at_the_same_step_to_the_same_settings(workers: int) -> None:
    settings = Autotune(warmup=2, steps=2, samples=4)

    async def live(context, group):  # type: ignore[no-untyped-def]
        tuner, seen = settings.tuner(Knobs(2**20, 0.001), context.port, group), []
        for _ in range(12):
            seen.append(list(tuner.knobs))
            await context.port.sleep(0.01 * (1 + group.rank))
            await tuner.step(1000)
        return [torch.tensor(seen, dtype=torch.float64)]

    [first, *others] = [response[0] for response in run_collective(workers, live)[0]]
    assert all(torch.equal(first, other) for other in others)
    assert len(first.unique(dim=0)) >= 3
    changed = [step for step in range(1, 12) if not torch.equal(first[step], first[step - 1])]
    assert set(changed) <= {3, 5, 7, 9}, "one step before the first sample, then two each"


@pytest.mark.parametrize("on", [None, Processes()], ids=["simulator", "processes"])
def test_tuning_changes_no_bit(on: Any) -> None:
    toy = Toy(lambda parameters: torch.optim.SGD(parameters, lr=0.05), epochs=3)
    tuned = Strategy(topology=Fused(readiness=BitVector(), tuning=Autotune(warmup=2, steps=1, samples=8)))
    assert torch.equal(weights(toy, 2, tuned, on), weights(toy, 2, "horovod"))


def test_a_resumed_search_goes_on(tmp_path: Any) -> None:
    toy = Toy(lambda parameters: torch.optim.SGD(parameters, lr=0.05), epochs=2)
    tuned = Strategy(topology=Fused(tuning=Autotune(warmup=2, steps=1, samples=8)))
    whole = run(toy, workers=2, strategy=tuned, on=ON, seed=5, checkpoints=Checkpoints(tmp_path, every=5)).summary
    again = run(toy, workers=2, strategy=tuned, on=ON, seed=5, checkpoints=Checkpoints(resume=tmp_path / "step-00000005")).summary
    assert again.weights_sha256 == whole.weights_sha256 == trained(toy, 2, "horovod").summary.weights_sha256


def test_the_process_goes_through_what_it_has_seen_and_doubts_what_is_far() -> None:
    seen, values = np.array([[0.0], [0.5], [1.0]]), np.array([1.0, 3.0, 2.0])
    mean, deviation = GaussianProcess(0.2, 1e-6).predict(seen, values, np.array([[0.5], [0.25]]))
    assert mean[0] == pytest.approx(3.0, abs=1e-3)
    assert deviation[0] < 0.01 < 0.1 < deviation[1]
    better = expected_improvement(np.array([3.0, 3.0, 1.0]), np.array([0.1, 1.0, 0.1]), 3.0)
    assert better[1] > better[0] > better[2] >= 0


@pytest.mark.parametrize(
    "make",
    [lambda: Autotune(steps=0), lambda: Autotune(warmup=50), lambda: Autotune(noise=0), lambda: Autotune(seconds=(0.1, 0.1))],
)
def test_searches_without_meaning_are_refused(make: Any) -> None:
    with pytest.raises(CompositionError, match="give"):
        make()
