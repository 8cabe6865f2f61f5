"""A model in little memory gives the same bits, and never uses more."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from toy import data

import polyrhythm as pr
from polyrhythm.errors import CompositionError
from polyrhythm_reproductions.paging import PagedModel


def build() -> nn.Sequential:
    torch.manual_seed(3)
    hidden = [layer for _ in range(4) for layer in (nn.Linear(32, 32), nn.Tanh())]
    return nn.Sequential(nn.Linear(10, 32), nn.Tanh(), *hidden, nn.Dropout(0.1), nn.Linear(32, 3))


class Branching(nn.Module):
    """Takes another branch when asked to."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.first, self.other, self.last = nn.Linear(10, 16), nn.Linear(10, 16), nn.Linear(16, 3)
        self.turn = False

    def forward(self, x: Tensor) -> Tensor:
        hidden: Tensor = self.other(x) if self.turn else self.first(x)
        return self.last(hidden.relu())  # type: ignore[no-any-return]


def trained(model: nn.Module, paged: PagedModel | None, steps: int = 4, turn: int = -1) -> list[Tensor]:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    x, y = data()
    torch.manual_seed(7)
    for step in range(steps):
        if isinstance(model, Branching):
            model.turn = step == turn
        optimizer.zero_grad()
        if paged is None:
            F.cross_entropy(model(x[:16]), y[:16]).backward()
        else:
            with paged.iteration():
                F.cross_entropy(model(x[:16]), y[:16]).backward()
        optimizer.step()
    return [each.detach().clone() for each in model.parameters()]


def working_set() -> int:
    paged = PagedModel(model := build(), 1 << 20)
    trained(model, paged, 1)
    return paged.trace.working_set


@pytest.mark.parametrize("share", [1.0, 0.6, 0.45])
def test_results_have_the_same_bits_under_any_budget_which_is_never_exceeded(share: float) -> None:
    budget = int(share * working_set())
    paged = PagedModel(model := build(), budget)
    for mine, plain in zip(trained(model, paged), trained(build(), None), strict=True):
        assert torch.equal(mine, plain)
    assert paged.plan is not None
    assert paged.plan.peak <= budget
    assert paged.peak <= budget
    assert paged.broken == 0


def test_a_trace_that_breaks_is_computed_all_the_same_and_makes_the_next_plan() -> None:
    paged = PagedModel(model := Branching(), 1 << 20)
    whole = trained(Branching(), None, 5, turn=2)
    assert all(torch.equal(mine, plain) for mine, plain in zip(trained(model, paged, 5, turn=2), whole, strict=True))
    assert paged.broken == 2  # there, and back
    assert paged.plan is not None
    assert any("first" in each.name for each in paged.plan.trace.operations)


def test_another_batch_size_breaks_the_trace() -> None:
    paged = PagedModel(model := build(), 1 << 20)
    for rows in (16, 16, 8, 8):
        with paged.iteration():
            model(data()[0][:rows]).sum().backward()
    assert paged.broken == 1


def test_a_budget_below_one_operation_is_refused_and_the_model_is_as_it_was() -> None:
    paged = PagedModel(model := build(), 2000)
    before = [each.data_ptr() for each in model.parameters()]
    with pytest.raises(CompositionError, match="not enough"), paged.iteration():
        model(data()[0]).sum().backward()
    assert [each.data_ptr() for each in model.parameters()] == before
    with pytest.raises(CompositionError, match="give the bytes"):
        PagedModel(model, 0)


def test_a_second_backward_is_refused() -> None:
    paged = PagedModel(model := build(), 1 << 20)
    with paged.iteration():
        loss = model(data()[0]).sum()
        loss.backward(retain_graph=True)
        with pytest.raises(CompositionError, match="leave retain_graph out"):
            loss.backward()


def in_little_memory(worker: Any) -> None:
    model = build()
    model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.1))
    paged = PagedModel(model, 24_000)
    for x, y in worker.batches(data(), batch_size=8):
        optimizer.zero_grad()
        with paged.iteration():
            F.cross_entropy(model(x), y).backward()
        optimizer.step()


def in_all(worker: Any) -> None:
    model = build()
    model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.1))
    for x, y in worker.batches(data(), batch_size=8):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()


def test_workers_of_a_system_may_use_little_memory() -> None:
    on = pr.Simulator(network=pr.Instant())
    runs = [pr.run(train, workers=2, strategy="geeps", on=on, seed=5) for train in (in_little_memory, in_all)]
    assert runs[0].summary.weights_sha256 == runs[1].summary.weights_sha256
