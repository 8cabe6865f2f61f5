"""The sparse workload learns, and its weights are sparse."""

from __future__ import annotations

import torch

from polyrhythm.core.simulator import Instant, Simulator
from polyrhythm.core.training.run import run
from polyrhythm.systems import find
from polyrhythm.workloads import SparseLogistic
from polyrhythm.workloads.sparse_logistic import generated


def test_it_learns_a_few_of_many_weights() -> None:
    job = SparseLogistic(samples=400, features=3000, active=50, steps=20, penalty=3e-3)
    done = run(job, workers=2, strategy=find("li-ps", slack=0, penalty=job.penalty), on=Simulator(network=Instant()), seed=1)
    assert done.final["accuracy"] > 0.6
    assert done.final["objective"] < 0.67
    weights = torch.cat([each.view(-1) for each in done.weights.values()])
    assert 0 < done.final["nonzero"] == int((weights != 0).sum()) < 100


def test_few_features_are_common_and_most_are_rare() -> None:
    training, test = generated(SparseLogistic(), 0)
    counts = training.features.view(-1).bincount(minlength=20_000)
    assert counts[:10].min() > 100
    assert (counts <= 2).float().mean() > 0.7
    assert 0.4 < training.labels.mean() < 0.6
    assert test.features.shape == (1000, 20)
