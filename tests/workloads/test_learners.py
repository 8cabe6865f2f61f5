"""Laws of the learners: each trains by several systems, on real processes and among 16 virtual workers, and several train what one does."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pytest
from torch import Tensor

import polyrhythm as pr
from polyrhythm.errors import CompositionError
from polyrhythm.workloads import WORKLOADS
from polyrhythm_reproductions.jobs.every_learner import LEARNERS

SMALL: dict[str, dict[str, Any]] = {
    "dbn-digits": {"epochs": 1, "fine_epochs": 1, "batch_size": 64},
    "rica-patches": {"patches": 480, "epochs": 1, "batch_size": 10},
    "gan-ring": {"samples": 600, "epochs": 1, "batch_size": 10, "width": 16},
    "autoencoder-digits": {"epochs": 1, "batch_size": 24},
    "sparse-svm": {"samples": 480, "epochs": 1, "batch_size": 10},
    "matrix-completion": {"ratings": 528, "epochs": 1, "batch_size": 10},
    "graph-cuts": {"nodes": 90, "edges": 480, "terminals": 3, "epochs": 1, "batch_size": 10},
}
"""Settings with which a run takes a second at most."""
SPARSE = ("sparse-svm", "matrix-completion", "graph-cuts")
"""Learners whose gradients are sparse: for systems in which the worker's own optimizer takes the step."""
CASES = [(name, system) for name, learner in LEARNERS.items() for system in learner.systems]
FEW = ("auto-encoder", "allreduce"), ("GAN", "ssp"), ("sparse SVM", "hogwild"), ("LightLDA", "ssp"), ("L-BFGS", "sandblaster")
"""What is tried on real processes at once; the rest is left to the long tests."""
VIRTUAL = pr.Simulator(devices=pr.hardware.Profile("a step of 1 ms", (1e-3,)))


def job(name: str, **settings: Any) -> Any:
    return WORKLOADS[name](**{**SMALL[name], **settings})


def check(name: str, run: Any) -> None:
    """What ran has taken steps, and its metric is a number."""
    assert run.summary.steps > 0
    assert math.isfinite(run.final[LEARNERS[name].job.metric.name])


def test_every_learner_has_three_systems_or_more() -> None:
    assert len(LEARNERS) == 12
    assert min(len(learner.systems) for learner in LEARNERS.values()) >= 3


@pytest.mark.parametrize(("name", "system"), [pytest.param(*case, marks=[pytest.mark.cover] if case[1] == "ssp" else []) for case in CASES])
def test_sixteen_virtual_workers_train_a_learner(name: str, system: str) -> None:
    check(name, pr.run(LEARNERS[name].job, workers=16, strategy=system, on=VIRTUAL, seed=1))


REAL = [(*case, workers) for case in CASES for workers in (1, 2, 3, 4)]


@pytest.mark.parametrize(
    ("name", "system", "workers"),
    [pytest.param(*case, marks=[] if case[:2] in FEW and case[2] == 2 else [pytest.mark.long]) for case in REAL],
)
def test_real_processes_train_a_learner(name: str, system: str, workers: int) -> None:
    check(name, pr.run(LEARNERS[name].job, workers=workers, strategy=system, on=pr.Processes(), seed=1))


@pytest.mark.parametrize("name", [name for name, learner in LEARNERS.items() if learner.why])
def test_the_systems_that_cannot_train_a_learner_refuse_it(name: str) -> None:
    with pytest.raises(CompositionError):
        pr.run(LEARNERS[name].job, workers=2, strategy="allreduce", on=VIRTUAL, seed=1)


def weights(name: str, workers: int, strategy: Any) -> Mapping[str, Tensor]:
    """Three workers share what is one worker's batch."""
    batch = SMALL[name]["batch_size"] * 3 // workers
    return pr.run(job(name, batch_size=batch), workers=workers, strategy=strategy, on=VIRTUAL, seed=2).weights


EQUAL = {"dbn-digits": 1e-6, "rica-patches": 1e-6, "gan-ring": 1e-5, "autoencoder-digits": 1e-5}
"""How far weights may be from those of one process, after 16 to 20 steps; the belief net's after four."""


@pytest.mark.parametrize("system", ["allreduce", "direct", pytest.param("geeps", marks=pytest.mark.long)])
@pytest.mark.parametrize("name", EQUAL)
def test_several_workers_in_lockstep_train_what_one_trains(name: str, system: str) -> None:
    one, several = (weights(name, workers, strategy) for workers, strategy in ((1, "single"), (3, system)))
    assert max(float((several[key] - each).abs().max()) for key, each in one.items()) <= EQUAL[name]


@pytest.mark.parametrize("name", SPARSE)
def test_steps_on_shared_weights_write_the_rows_of_their_samples_alone(name: str) -> None:
    made = job(name, batch_size=1)
    rows = {"sparse-svm": 20, "matrix-completion": 2, "graph-cuts": 2}[name]
    run = pr.run(made, workers=2, strategy="hogwild", on=pr.Processes(), seed=1)
    assert run.summary.row_writes == rows * run.summary.samples
