"""The sparse problems: their gradients, and that shared weights without locks come to what one worker comes to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import polyrhythm as pr
from polyrhythm.errors import WorkloadError
from polyrhythm.workloads import GraphCuts, MatrixCompletion, SparseSvm
from polyrhythm.workloads.sparse_problems.graph_cuts import on_simplex, planted
from polyrhythm.workloads.sparse_problems.sparse_svm import generated

STEPS = pr.Simulator(devices=pr.hardware.Profile("a step of 1 ms", (1e-3,)))
SMALL: dict[str, tuple[Any, float]] = {
    "loss": (SparseSvm(samples=600, features=200, epochs=2, batch_size=4), 0.8),
    "rmse": (MatrixCompletion(users=40, items=20, ratings=1200, rank=2, epochs=6, batch_size=4), 0.8),
    "cut_loss": (GraphCuts(nodes=120, edges=1000, terminals=10, epochs=4), 0.2),
}
"""Problems by the metric that is compared, and what it must be below."""


@pytest.mark.parametrize("metric", SMALL)
def test_two_workers_without_locks_come_to_what_one_comes_to(metric: str) -> None:
    job, below = SMALL[metric]
    one, two = (pr.run(job, workers=workers, strategy="hogwild", on=STEPS, seed=4).final[metric] for workers in (1, 2))
    assert one < below
    assert abs(two / one - 1) < 0.05


@given(st.lists(st.floats(-3, 3), min_size=2, max_size=6))
def test_a_projection_on_the_simplex_is_the_nearest_point(numbers: list[float]) -> None:
    point = torch.tensor([numbers], dtype=torch.float64)
    found = on_simplex(point)
    assert float(found.min()) >= 0
    assert abs(float(found.sum()) - 1) < 1e-9
    corners = torch.eye(len(numbers), dtype=torch.float64)
    assert ((corners - found) @ (point - found).T).max() < 1e-9  # the simplex is on the other side


def test_half_of_a_step_over_the_corner_stays_on_the_simplex() -> None:
    run = pr.run(GraphCuts(nodes=60, edges=300, terminals=5, epochs=2), workers=1, strategy="single", on=STEPS, seed=1)
    rows = run.weights["rows"]
    assert torch.allclose(rows.sum(dim=1), torch.ones(60), atol=1e-5)
    assert rows.min() > -1e-5


def test_terminals_stay_where_they_are() -> None:
    job = GraphCuts(nodes=60, edges=300, terminals=5, epochs=2)
    graph = planted(job, 1)
    rows = pr.run(job, workers=2, strategy="hogwild", on=STEPS, seed=1).weights["rows"]
    corners = torch.nn.functional.one_hot(graph.groups[graph.terminals], 3).float()
    assert torch.equal(rows[graph.terminals], corners)


def test_samples_have_distinct_features_and_unit_length() -> None:
    training, test = generated(SparseSvm(samples=50, features=60), 0)
    which, values, labels = training.tensors
    assert all(len(row.unique()) == 20 for row in which)
    assert torch.allclose(values.norm(dim=1), torch.ones(50))
    assert set(labels.tolist()) == {-1.0, 1.0}
    assert len(test) == 1000


WRONG: dict[str, Callable[[], Any]] = {
    "0 or more": lambda: SparseSvm(penalty=-1.0),
    "as many or fewer": lambda: SparseSvm(features=10),
    "must be 0": lambda: MatrixCompletion(penalty=-1.0),
    "0 to 1": lambda: GraphCuts(within=1.5),
    "give fewer": lambda: GraphCuts(nodes=30),
}


@pytest.mark.parametrize("message", WRONG)
def test_settings_of_a_sparse_problem_that_cannot_be_are_refused(message: str) -> None:
    with pytest.raises(WorkloadError, match=message):
        WRONG[message]()
