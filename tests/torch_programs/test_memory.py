"""Laws of the memory of a rank: its peak is that of torch's own tracker, parameters and states are what their shapes say."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.distributed._tools.mem_tracker import MemTracker

import polyrhythm as pr
from polyrhythm.core.kernel.events import MemoryPeak
from polyrhythm.tools.report.page import page
from polyrhythm.torch_programs.memory import Memory, modules_followed

from .programs import perceptron, sharded


def net() -> nn.Module:
    return nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Sequential(nn.Linear(128, 128), nn.Tanh()), nn.Linear(128, 10))


def one_step(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    loss = F.cross_entropy(model(torch.randn(32, 64)), torch.zeros(32, dtype=torch.int64))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


@pytest.mark.parametrize("make", [torch.optim.SGD, torch.optim.Adam, torch.optim.Adagrad])
def test_the_peak_is_that_of_torchs_tracker(make: Callable[..., torch.optim.Optimizer]) -> None:
    memory = Memory()
    with memory, modules_followed(lambda: memory):
        model = net()
        optimizer = make(model.parameters(), lr=0.1)
        for _ in range(2):
            one_step(model, optimizer)
            memory.stepped(optimizer)
    found = memory.event(0.0, "worker/0")
    model = net()
    optimizer = make(model.parameters(), lr=0.1)
    tracker = MemTracker()
    tracker.track_external(model, optimizer)
    with tracker:
        one_step(model, optimizer)
        tracker.reset_mod_stats()
        one_step(model, optimizer)
    [expected] = tracker.get_tracker_snapshot("peak").values()
    assert found.peak == pytest.approx(expected["Total"], rel=0.01)
    assert sum(found.roles.values()) == found.peak == sum(found.modules.values())
    size = sum(4 * parameter.numel() for parameter in model.parameters())
    assert found.roles["parameter"] == found.roles["gradient"] == size
    assert found.modules["2.0"] >= 4 * (128 * 128 + 128)


def test_each_of_four_ranks_holds_a_quarter_of_the_parameters() -> None:
    run = pr.simulate(sharded, ranks=4, memory=True)
    held = [event for event in run.outcome.events if isinstance(event, MemoryPeak)]
    whole = sum(4 * parameter.numel() for parameter in perceptron().parameters())
    assert len(held) == 4
    assert all(event.roles["parameter"] <= 0.35 * whole for event in held)
    assert not [event for event in pr.simulate(sharded, ranks=4).outcome.events if isinstance(event, MemoryPeak)]
    text = page([run.outcome], "memory")
    assert "Memory of each rank, by role" in text
    assert all(f"worker/{rank}</th>" in text for rank in range(4))
