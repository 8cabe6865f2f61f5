"""The workloads without gradients: what they generate, and that they come to what is planted."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

import polyrhythm as pr
from polyrhythm.errors import WorkloadError
from polyrhythm.workloads import Lasso, MatrixFactorization
from polyrhythm.workloads.lasso import generated as problem
from polyrhythm.workloads.matrix_factorization import generated as ratings
from polyrhythm_reproductions.jobs.scheduled_lasso import least_objective

SMALL = Lasso(samples=60, features=40, group=4, correlation=0.7, rounds=120, parallel=4)
STEPS = pr.Simulator(devices=pr.hardware.Profile("measured", (1e-3,)))


def test_features_are_correlated_in_groups_and_have_unit_length() -> None:
    x = problem(SMALL, 3).x
    alike = (x.T @ x).abs()
    assert torch.allclose(alike.diagonal(), torch.ones(40), atol=1e-5)
    assert float(alike[:4, :4].min()) > 0.4
    assert float(alike[:4, 4:].mean()) < 0.2
    assert torch.equal(x, problem(SMALL, 3).x)


@pytest.mark.parametrize(("slack", "workers"), [(0, 1), (1, 2)])
def test_parallel_descent_comes_to_the_minimum(slack: int, workers: int) -> None:
    job = replace(SMALL, flight=slack)
    strategy = pr.Strategy(consistency=pr.consistency.Bounded(slack), topology=pr.topology.Server(2))
    run = pr.run(job, workers=workers, strategy=strategy, on=STEPS, seed=1)
    least = least_objective(SMALL, 1)
    assert least - 1e-6 <= run.final["objective"] < 1.1 * least
    assert run.final["loss"] < 0.1


def test_ratings_are_held_out_and_factors_predict_them() -> None:
    job = MatrixFactorization(users=40, items=20, ratings=800, rank=2, epochs=20, batch_size=40)
    training, test = ratings(job, 0)
    assert (len(training), len(test)) == (720, 80)
    assert int(training.tensors[0].min()) >= 0
    assert int(training.tensors[0][:, 1].min()) >= 40
    run = pr.run(job, workers=2, strategy="ssp", on=STEPS, seed=0)
    assert run.final["rmse"] < 0.7 * float(test.tensors[1].std())


def test_settings_that_cannot_be_are_refused() -> None:
    for wrong, message in ((lambda: Lasso(correlation=1.0), "below 1"), (lambda: Lasso(flight=-1), "0 or more")):
        with pytest.raises(WorkloadError, match=message):
            wrong()
    with pytest.raises(WorkloadError, match="0 or more"):
        MatrixFactorization(penalty=-1.0)
