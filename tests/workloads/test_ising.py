"""Asynchronous Gibbs sampling: exact marginals, and samples that have them although workers see each other's spins late."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import torch

import polyrhythm as pr
from polyrhythm.errors import WorkloadError
from polyrhythm.workloads import Ising
from polyrhythm.workloads.ising_ring import IsingRing, measured

STEPS = pr.Simulator(devices=pr.hardware.Profile("measured", (1e-3,)))
SAMPLING = Ising(chains=8192, sweeps=6)


@pytest.mark.parametrize("spins", [5, 8])
def test_exact_marginals_are_those_of_all_states(spins: int) -> None:
    ring = IsingRing.drawn(spins, 0.9, 0.7, seed=spins)
    states = np.array(list(product((-1.0, 1.0), repeat=spins)))
    energy = states @ ring.fields + sum((states * np.roll(states, -k - 1, axis=1)) @ ring.couplings[k] for k in range(2))
    weights = np.exp(energy) / np.exp(energy).sum()
    up, pairs = ring.exact()
    assert np.allclose(weights @ (states > 0), up.numpy())
    assert np.allclose(weights @ (states * np.roll(states, -1, axis=1)), pairs.numpy())
    drawn = torch.from_numpy(states[np.random.default_rng(0).choice(len(states), 40_000, p=weights)].T)
    assert torch.allclose(measured(drawn)[0], up, atol=0.015)


def test_dobrushins_condition_holds() -> None:
    ring = IsingRing.drawn(50, 0.8, 0.5, seed=3)
    for spin in range(50):
        neighbours, strengths = ring.neighbours(spin)
        assert sorted((each - spin) % 50 for each in neighbours) == [1, 2, 48, 49]
        assert 0.3 < strengths.abs().tanh().sum() <= 0.8 + 1e-6


def test_marginals_are_those_of_the_model_also_with_late_reads() -> None:
    for workers, slack in ((1, 0), (4, 2)):
        final = pr.run(SAMPLING, workers=workers, strategy=pr.systems.find("ssp", slack=slack), on=STEPS, seed=1).final
        assert final["marginal_error"] < 0.02, (workers, slack)


def test_the_later_the_reads_the_larger_the_error_of_neighbours() -> None:
    job = Ising(chains=8192, sweeps=4)
    error = [pr.run(job, workers=4, strategy=pr.systems.find("ssp", slack=slack), on=STEPS, seed=1).final["pair_error"] for slack in (0, 8)]
    assert error[1] > 1.5 * error[0]


def test_settings_that_cannot_be_are_refused() -> None:
    for wrong in ({"influence": 1.0}, {"spins": 4}, {"field": -1.0}, {"chains": 0}, {"batch_size": 0}, {"influence": float("nan")}):
        with pytest.raises(WorkloadError, match="ising was given"):
            Ising(**wrong)  # type: ignore[arg-type]
