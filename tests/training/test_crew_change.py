"""What a training function writes for workers that come and go: epochs, functions that are called after a change, the learning rate."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace
from itertools import pairwise, product
from typing import Any

import pytest
import torch
from toy import data, network

from polyrhythm import merge, systems
from polyrhythm.core.kernel.crew import BatchRule, Crew
from polyrhythm.core.protocols.merge import LATE, scale_of_all
from polyrhythm.core.simulator.simulator import Instant, Simulator
from polyrhythm.core.strategy import Strategy
from polyrhythm.core.strategy.rates import rate_factor
from polyrhythm.core.training.crew_change import CrewChange
from polyrhythm.core.training.run import run
from polyrhythm.errors import PlainEpochsWarning, WorkloadError
from polyrhythm.hardware import Crash, Profile

from .scenes import go, loop, sgd

NAMES = tuple(f"worker/{rank}" for rank in range(6))
CHANGE = CrewChange(2, NAMES[:4], (NAMES[0], NAMES[2], NAMES[4], NAMES[5]), lost=(NAMES[3],), step=7)


def steps(worker: Any, model: Any, optimizer: Any) -> None:
    for x, y in worker.batches(data(), batch_size=16):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()


def counted(worker: Any) -> None:
    model = network()
    model, optimizer = worker.attach(model, sgd(model))
    for _ in worker.epochs(3):
        steps(worker, model, optimizer)
        for _ in worker.batches(data(), batch_size=16):  # an evaluation
            pass


def plain(worker: Any) -> None:
    model = network()
    loop(worker, *worker.attach(model, sgd(model)), epochs=3, size=16)


def once(worker: Any) -> None:
    model = network()
    model, optimizer = worker.attach(model, sgd(model))
    next(iter(worker.batches(data(), batch_size=16)))  # a look at a batch is no epoch
    steps(worker, model, optimizer)


def changing(train: Any) -> list[warnings.WarningMessage]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run(train, workers=(1, 2), on=Simulator(network=Instant()), seed=5)
    return [each for each in caught if each.category is PlainEpochsWarning]


def test_a_plain_loop_of_epochs_is_noticed_at_the_users_line_where_workers_may_join() -> None:
    noticed = changing(plain)
    assert noticed
    assert all("worker.epochs(n)" in str(each.message) for each in noticed)
    assert {each.filename.rpartition("/")[2] for each in noticed} == {"scenes.py"}


@pytest.mark.parametrize("train", [counted, once])
def test_epochs_of_the_worker_and_a_single_pass_are_not_warned_of(train: Any) -> None:
    assert changing(train) == []


def test_a_plain_loop_is_as_good_as_any_where_no_worker_joins() -> None:
    go(plain)


def test_epochs_are_counted_as_range_does() -> None:
    def train(worker: Any) -> None:
        plain(worker)
        assert list(worker.epochs(3)) == [0, 1, 2]
        assert list(worker.epochs(0)) == []
        with pytest.raises(WorkloadError, match=r"worker.epochs\('3'\) counts nothing"):
            worker.epochs("3")

    go(train, workers=1)


def test_a_change_says_who_joined_left_and_was_lost() -> None:
    assert (CHANGE.joined, CHANGE.left, CHANGE.lost) == (NAMES[4:], NAMES[1:2], NAMES[3:4])
    assert {*CHANGE.before} - {*CHANGE.left, *CHANGE.lost} | {*CHANGE.joined} == {*CHANGE.after}


def test_functions_are_called_in_order_and_an_error_names_its_function() -> None:
    called: list[Any] = []

    def broken(change: CrewChange) -> None:
        raise ZeroDivisionError("no worker")

    def train(worker: Any) -> None:
        plain(worker)
        worker.on_change(called.append)
        worker.on_change(lambda change: called.append(change.epoch))
        worker._state.listeners.changed(CHANGE)
        worker.on_change(broken)
        with pytest.raises(ZeroDivisionError) as caught:
            worker._state.listeners.changed(CHANGE)
        assert "broken, which worker.on_change was given, after change 2" in caught.value.__notes__[0]
        with pytest.raises(WorkloadError, match=r"worker\.on_change was given 3, which cannot be called"):
            worker.on_change(3)

    go(train, workers=1)
    assert called == [CHANGE, 2, CHANGE, 2]


def test_the_crew_of_a_worker_has_its_members_and_no_server() -> None:
    def train(worker: Any) -> None:
        plain(worker)
        assert (worker.crew.members, worker.crew.epoch) == (NAMES[:3], 0)

    go(train, "ssp", workers=3)


@pytest.mark.parametrize("name", ["allreduce", "downpour"])
def test_after_a_loss_and_a_replacement_every_worker_knows_the_crew_and_has_been_told_of_changes(name: str) -> None:
    heard: dict[str, list[CrewChange]] = {}
    seen: dict[str, Any] = {}

    def train(worker: Any) -> None:
        own = worker._context.port.name
        worker.on_change(heard.setdefault(own, []).append)
        counted(worker)
        seen[own] = worker.crew

    on = Simulator(network=Instant(), devices=Profile("steps", (0.05,)), faults=(Crash("worker/2", 0.2),))
    run(train, workers=(2, 3), strategy=name, on=on, seed=5)
    members = ("worker/0", "worker/1", "worker/5")
    assert {view.members for view in seen.values()} == {members}
    assert len({view.epoch for view in seen.values()}) == 1
    first = heard["worker/0"]
    assert first == heard["worker/1"]
    assert first[-1].after == members
    assert [name for change in first for name in change.joined] == ["worker/5"]
    assert [name for change in first for name in change.left] == []


@pytest.mark.parametrize("rule", [each for each in merge.MEMBERS if each.traits.averages], ids=repr)
@pytest.mark.parametrize("batch", BatchRule)
def test_the_rate_follows_a_path_of_changes_as_it_does_a_single_one(rule: Any, batch: BatchRule) -> None:
    agreement = replace(Strategy().agreement, merge=rule)
    for path in product((1, 2, 3, 8), repeat=3):
        found = math.prod(rate_factor(batch, agreement, *each) for each in pairwise(path))
        assert found == pytest.approx(rate_factor(batch, agreement, path[0], path[-1]))


def test_the_rate_grows_with_the_root_or_as_the_merge_has_it_by_itself() -> None:
    def total(rule: Any) -> float:
        agreement = replace(Strategy().agreement, merge=rule)
        before, after = (scale_of_all(rule, LATE, workers) or 0.0 for workers in (2, 8))
        return rate_factor(BatchRule.WORKER, agreement, 2, 8) * after / before

    assert [total(each) for each in (merge.Mean(), merge.SquareRootScaling(), merge.SquareRootScaling(4.0))] == pytest.approx([2, 2, 2])
    assert [total(each) for each in (merge.Sum(), merge.LinearScaling(), merge.LinearScaling(factor=4.0))] == pytest.approx([4, 4, 2])
    assert rate_factor(BatchRule.WORKER, systems.find("sparknet").agreement, 2, 8) == 1.0


@pytest.mark.parametrize(("before", "after"), list(product((1, 2, 4, 8), repeat=2)))
def test_one_of_the_batches_stays_equal(before: int, after: int) -> None:
    assert Crew(1, 8).rule.batch(16, before, after) == 16
    shared = Crew(1, 8, batch="global").rule
    assert shared.batch(16, before, after) * after == 16 * before
    assert shared.batch(1, 1, 8) == 1
