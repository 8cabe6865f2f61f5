"""Systems that the planner takes to be equal in lockstep are so: one curve of samples serves all of them."""

from __future__ import annotations

from collections import defaultdict
from functools import cache
from typing import Any

import pytest
import torch
from toy import Toy, weights

from polyrhythm.core.strategy.strategy import Strategy
from polyrhythm.systems import SYSTEMS, find
from polyrhythm.tools.planner.lockstep import Lockstep
from polyrhythm.topology import AllReduce, CompressedRing, Delayed, Server

MOMENTUM = Toy(lambda parameters: torch.optim.SGD(parameters, lr=0.05, momentum=0.9))
ADAM = Toy(lambda parameters: torch.optim.Adam(parameters, lr=0.01))
OPTIONS: dict[str, list[dict[str, Any]]] = {
    "sparknet": [{"tau": 4}, {"tau": 20}],
    "local-sgd": [{"tau": 4}],
    "elephas": [{}],
    "byteps": [{"spares": 2}],
    "mxnet": [{"servers": 2}],
}
"""Options with which some systems are equal to others, in addition to their own."""


@cache
def grouped(workers: int) -> list[tuple[Lockstep, list[tuple[str, Strategy]]]]:
    """The systems that the rule groups, with their names."""
    groups: dict[Lockstep, list[tuple[str, Strategy]]] = defaultdict(list)
    for name in SYSTEMS:
        for options in [{}, *OPTIONS.get(name, [])]:
            strategy = find(name, **options)
            found = Lockstep.of(strategy, workers)
            if found is not None and strategy.workers(workers) == workers:
                groups[found].append((f"{name} {options}", strategy))
    return [(found, members) for found, members in groups.items() if len(members) > 1]


@pytest.mark.parametrize("toy", [MOMENTUM, pytest.param(ADAM, marks=pytest.mark.long)])
@pytest.mark.parametrize("seed", [5, pytest.param(6, marks=pytest.mark.long)])
@pytest.mark.parametrize("workers", [3, pytest.param(4, marks=pytest.mark.long)])
def test_systems_that_are_grouped_have_equal_weights_within_rounding(workers: int, seed: int, toy: Toy) -> None:
    for _, members in grouped(workers):
        (first, strategy), *others = members
        expected = weights(toy, workers, strategy, seed=seed)
        for name, other in others:
            found = weights(toy, workers, other, seed=seed)
            assert torch.allclose(found, expected, rtol=1e-4, atol=1e-5), f"{name} differs from {first}"


def test_synchronous_sums_are_one_class_whatever_carries_them() -> None:
    names = [{name for name, _ in members} for found, members in grouped(4) if found.every_step]
    assert len(names) == 1
    assert {f"{each} {{}}" for each in ("allreduce", "tree", "byteps", "horovod", "mxnet", "poseidon", "hierarchical")} <= names[0]


def test_local_steps_of_the_same_number_are_one_class_over_servers_and_collectives() -> None:
    assert Lockstep.of(find("sparknet", tau=4), 4) == Lockstep.of(find("local-sgd", tau=4), 4) is not None
    assert Lockstep.of(find("sparknet", tau=4), 4) != Lockstep.of(find("sparknet", tau=10), 4)


@pytest.mark.parametrize("name", ["ssp", "onebit", "powersgd", "pipe-sgd", "adasum", "gossipgrad", "fedavg", "diloco-x", "dlion", "qsgd"])
def test_what_depends_on_time_or_loses_a_part_is_in_no_class(name: str) -> None:
    assert Lockstep.of(find(name), 4) is None


def test_sums_that_are_rounded_on_their_way_are_no_exact_ones() -> None:
    assert Lockstep.of(Strategy(topology=Delayed(AllReduce(CompressedRing()), steps=0)), 4) is None
    assert Lockstep.of(Strategy(topology=Delayed(AllReduce(), steps=0)), 4) == Lockstep.of(Strategy(topology=Server()), 4)
