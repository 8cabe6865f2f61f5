"""Adversaries on a ring: what counts as a covered mode, and strategies that synchronise one network only."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import polyrhythm as pr
from polyrhythm.workloads import GanRing
from polyrhythm.workloads.gan_ring import measured, modes, ring_of
from polyrhythm_reproductions.jobs.one_synchronised import only

STEPS = pr.Simulator(devices=pr.hardware.Profile("a step of 1 ms", (1e-3,)))


class Points(nn.Module):
    """A generator of given points."""

    def __init__(self, points: Tensor) -> None:
        super().__init__()
        self.points = nn.Parameter(points)

    def forward(self, noise: Tensor) -> Tensor:
        return self.points


def covered(points: Tensor) -> dict[str, float]:
    return measured(Points(points), nn.Identity(), torch.zeros(1))


def test_real_points_cover_all_modes_and_collapsed_ones_few() -> None:
    ring = ring_of(2000, 0)
    assert covered(ring)["modes"] == 8
    assert covered(ring)["precision"] > 0.99
    assert covered(modes()[:3].repeat(100, 1))["modes"] == 3
    assert covered(torch.zeros(100, 2)) == {"modes": 0.0, "precision": 0.0}


@pytest.mark.parametrize("shared", ["generator", "discriminator"])
def test_a_strategy_can_synchronise_one_of_two_networks(shared: str) -> None:
    last: dict[int, dict[str, Tensor]] = {}
    job = GanRing(samples=480, epochs=2, batch_size=16, width=8)

    def train(worker: pr.Worker) -> None:
        attach, networks = worker.attach, list[nn.Module]()
        worker.attach = lambda model, optimizer, **named: (networks.append(model), attach(model, optimizer, **named))[1]  # type: ignore[method-assign, assignment, func-returns-value]
        job(worker)
        last[worker.rank] = {name: each.detach().clone() for model in networks for name, each in model.named_parameters()}

    pr.run(train, workers=3, strategy=only(shared), on=STEPS, seed=1)
    for name, weight in last[0].items():
        alike = [torch.equal(weight, last[rank][name]) for rank in (1, 2)]
        assert all(alike) if name.startswith(shared) else not any(alike)


@pytest.mark.long
def test_four_workers_cover_the_ring() -> None:
    assert pr.run(GanRing(epochs=24, batch_size=32), workers=4, strategy="allreduce", on=STEPS, seed=0).final["modes"] >= 7
