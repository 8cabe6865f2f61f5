"""What every bundled workload promises."""

from __future__ import annotations

import pickle
from dataclasses import fields
from typing import Any

import pytest
import torch

from polyrhythm.errors import UnknownNameError, WorkloadError
from polyrhythm.workloads import WORKLOADS, Workload, find

# Short enough that all run in a test; the settings themselves are tested where the workload is.
SHORT: dict[str, dict[str, Any]] = {
    "digits-cnn": {"epochs": 2},
    "digits-mlp": {"epochs": 2},
    "chars-gpt": {"layers": 1, "width": 16},
    "chars-gpt-5m": {"layers": 1, "width": 16},
    "xor": {"samples": 100, "batch_size": 8},
    "lasso": {"features": 40, "group": 4, "samples": 50, "rounds": 2},
    "sparse-logistic": {"samples": 60, "features": 300, "active": 20, "steps": 2},
    "matrix-factorization": {"users": 6, "items": 5, "ratings": 200, "epochs": 1, "batch_size": 90},
    "dbn-digits": {"epochs": 1, "fine_epochs": 1},
    "rica-patches": {"patches": 200, "epochs": 1, "maps": 1},
    "gan-ring": {"samples": 256, "epochs": 1, "width": 8},
    "autoencoder-digits": {"epochs": 1},
    "sparse-svm": {"samples": 60, "features": 30, "present": 5, "batch_size": 30, "epochs": 1},
    "matrix-completion": {"users": 6, "items": 5, "ratings": 200, "epochs": 1, "batch_size": 90},
    "graph-cuts": {"nodes": 30, "edges": 120, "terminals": 2, "epochs": 1, "batch_size": 60},
    "lda": {"topics": 3, "sweeps": 1, "blocks": 2, "documents": 20, "vocabulary": 40},
    "word-senses": {"documents": 40, "epochs": 1, "vocabulary": 24, "topics": 2, "planted": 2, "batch_size": 30},
    "ising": {"chains": 8, "sweeps": 2},
    "markov-transformer": {"samples": 256, "width": 8},
    "markov-mixer": {"samples": 256, "width": 8},
    "markov-convolution": {"samples": 256, "width": 8},
    "chain-a3c": {"frames": 100, "width": 8},
    "chain-dqn": {"frames": 100, "width": 8},
    "chain-q": {"frames": 100, "width": 8},
    "cart-pole-a3c": {"frames": 200, "width": 8},
    "cart-pole-dqn": {"frames": 100, "width": 8},
}
each_workload = pytest.mark.parametrize("name", sorted(WORKLOADS))


def short(name: str) -> Workload:
    return find(name)(**SHORT[name])


def test_those_of_the_documentation_are_there() -> None:
    assert sorted(WORKLOADS) == [
        "autoencoder-digits",
        "cart-pole-a3c",
        "cart-pole-dqn",
        "chain-a3c",
        "chain-dqn",
        "chain-q",
        "chars-gpt",
        "chars-gpt-5m",
        "dbn-digits",
        "digits-cnn",
        "digits-mlp",
        "gan-ring",
        "graph-cuts",
        "ising",
        "lasso",
        "lda",
        "markov-convolution",
        "markov-mixer",
        "markov-transformer",
        "matrix-completion",
        "matrix-factorization",
        "rica-patches",
        "sparse-logistic",
        "sparse-svm",
        "word-senses",
        "xor",
    ]


def test_an_unknown_name_is_refused_with_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="'digits-mlp'"):
        find("digits-mpl")


@each_workload
def test_a_workload_shows_what_it_is_in_one_line(name: str) -> None:
    kind = WORKLOADS[name]
    assert kind.name == name
    assert kind.description
    assert "\n" not in kind.description
    assert kind.metric.higher_is_better == (kind.metric.name in ("accuracy", "score", "modes", "purity"))


@each_workload
def test_a_workload_is_a_value_that_can_be_sent(name: str) -> None:
    kind = WORKLOADS[name]
    assert pickle.loads(pickle.dumps(kind())) == kind()
    with pytest.raises((AttributeError, TypeError)):  # frozen
        setattr(kind(), fields(kind)[0].name, 3)  # type: ignore[arg-type]


@each_workload
def test_the_metric_that_counts_is_evaluated(name: str, lone_worker: type) -> None:
    worker = lone_worker(workers=2, steps_at_most=3)
    short(name)(worker)
    assert WORKLOADS[name].metric.name in worker.final


@each_workload
def test_one_seed_gives_the_same_start_and_the_same_end(name: str, lone_worker: type) -> None:
    workers = [lone_worker(seed=seed, steps_at_most=2) for seed in (7,)]
    short(name)(workers[0])
    workers.append(lone_worker(seed=7, steps_at_most=2))
    short(name)(workers[1])
    one, other = workers
    assert all(torch.equal(a, b) for a, b in zip(one.initial, other.initial, strict=True))
    assert all(torch.equal(a, b) for a, b in zip(one.weights, other.weights, strict=True))
    assert one.final == other.final
    different = lone_worker(seed=8, steps_at_most=1)
    short(name)(different)
    assert not all(torch.equal(a, b) for a, b in zip([*one.initial, *one.weights], [*different.initial, *different.weights], strict=True))


@each_workload
def test_training_changes_every_parameter(name: str, lone_worker: type) -> None:
    worker = lone_worker(steps_at_most=2)
    short(name)(worker)
    assert not any(torch.equal(before, after) for before, after in zip(worker.initial, worker.weights, strict=True))


@each_workload
def test_settings_with_which_nothing_trains_are_refused_at_once(name: str) -> None:
    there = {field.name for field in fields(WORKLOADS[name])}  # type: ignore[arg-type]
    setting = next(each for each in ("batch_size", "parallel", "chains", "steps", "sweeps") if each in there)
    with pytest.raises(WorkloadError, match=rf"{name} was given {setting}=0"):
        WORKLOADS[name](**{setting: 0})
