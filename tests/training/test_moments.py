"""A run is evaluated at the moments that were chosen, and its values there are those of any other choice."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch

import polyrhythm as pr
from polyrhythm.core.kernel.events import Evaluated


def train(worker: pr.Worker, moments: Any = None) -> None:
    torch.manual_seed(0)
    model: Any = torch.nn.Linear(4, 1)
    x = torch.linspace(-1, 1, 64).view(16, 4)
    model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.1))
    chosen = {} if moments is None else {"moments": moments}
    worker.evaluate(lambda found: {"loss": (found(x) - x.sum(1, keepdim=True)).square().mean().item()}, **chosen)
    for _ in range(20):
        optimizer.zero_grad()
        (model(x) - x.sum(1, keepdim=True)).square().mean().backward()
        worker.count(16)
        optimizer.step()


def evaluated(system: str, moments: Any = None) -> tuple[dict[float, dict[str, float]], dict[str, float], str]:
    run = pr.run(lambda worker: train(worker, moments), workers=2, strategy=system, on=pr.Simulator("slow"))
    found = {event.time: event.metrics for event in run.outcome.events if isinstance(event, Evaluated)}
    return found, run.summary.final, run.summary.weights_sha256 or ""


@pytest.mark.parametrize("system", ["allreduce", "ssp", "adpsgd"])
def test_chosen_moments_are_evaluated_as_they_are_among_all(system: str) -> None:
    def backwards(count: int, at: Callable[[int], Mapping[str, float]]) -> None:
        for place in range(count - 1, -1, -2):
            at(place)

    all_of_them, final, weights = evaluated(system)
    some, its_final, its_weights = evaluated(system, backwards)
    assert its_final == final
    assert its_weights == weights
    assert some == {time: metrics for time, metrics in all_of_them.items() if time in some}
    assert list(some) == sorted(all_of_them)[::-1][::2][::-1]


def test_the_end_is_evaluated_in_any_case() -> None:
    whole, final, _ = evaluated("allreduce")
    found, its_final, _ = evaluated("allreduce", lambda count, at: None)
    assert list(found) == [max(whole)]
    assert its_final == final
