"""Decisions of controllers from what they observe, and their effect in runs."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from toy import Toy, weights

from polyrhythm import systems
from polyrhythm.codec import ErrorFeedback, MaxN, Ranges, TopK
from polyrhythm.consistency import Asynchronous, BulkSynchronous
from polyrhythm.controllers import MEMBERS, BatchShares, BestWorker, LinkRanges, Several, SharedRanges, StepBytes, TotalBatch
from polyrhythm.core.kernel.events import Adjusted, Stepped
from polyrhythm.core.protocols.controller import ControlledSetting, Controller, Decision, Measurements, WorkerMeasure
from polyrhythm.core.simulator import Simulator
from polyrhythm.core.strategy import Strategy
from polyrhythm.core.strategy.control_loop import ControlLoop
from polyrhythm.core.training.run import run
from polyrhythm.errors import CompositionError
from polyrhythm.hardware.changes import ChangeEntry
from polyrhythm.hardware.devices import Device, Profile
from polyrhythm.hardware.fleet import Fleet, Mixed
from polyrhythm.hardware.network import Network
from polyrhythm.topology import AllToAll, LinkExchange, PartialExchange

TWO = {"worker/0": WorkerMeasure(0.1, 8.0), "worker/1": WorkerMeasure(0.3, 8.0)}
MEASURED = Measurements(10, "worker/0", TWO, {"": 1e5, "worker/1": 2e4}, 40_000, 2)


def decided(controller: Controller, measured: Measurements = MEASURED) -> list[tuple[ControlledSetting, str, float]]:
    return [(each.setting, each.receiver, each.value) for each in controller.decide(measured, {})[0]]


def test_partitions_are_as_many_as_it_takes_for_one_to_leave_in_a_step() -> None:
    assert decided(SharedRanges()) == [(ControlledSetting.RANGES, "", 4)]  # 40,000 bytes at 10,000 a step
    assert decided(LinkRanges()) == [(ControlledSetting.RANGES, "worker/1", 20)]  # and at 2,000 a step
    assert decided(LinkRanges(most=8)) == [(ControlledSetting.RANGES, "worker/1", 8)]
    assert decided(SharedRanges(), replace(MEASURED, group_size=5)) == [(ControlledSetting.RANGES, "", 16)]


def test_a_packet_has_the_bytes_of_a_step_and_a_batch_its_share_by_speed() -> None:
    assert decided(StepBytes(share=0.5)) == [(ControlledSetting.NBYTES, "worker/1", 1000)]
    assert decided(BatchShares()) == [(ControlledSetting.BATCH, "", 12)]  # 80 samples a second of 106.7, of 16
    assert decided(BatchShares(), replace(MEASURED, name="worker/1")) == [(ControlledSetting.BATCH, "", 4)]
    assert decided(BatchShares(growth=2.0, most=3.0), replace(MEASURED, clock=50)) == [(ControlledSetting.BATCH, "", 36)]


UNMEASURED = (TotalBatch(12),)
"""Controllers that look at the number of workers alone, and decide the same before anything was measured."""


@pytest.mark.parametrize("controller", MEMBERS, ids=repr)
def test_nothing_is_decided_that_was_not_declared_and_nothing_from_nothing(controller: Controller) -> None:
    assert {setting for setting, _, _ in decided(controller)} <= controller.traits.sets
    alone = Measurements(controller.traits.every, "worker/0", {"worker/0": TWO["worker/0"]}, {}, 40_000, 2)
    assert decided(controller, alone) == (decided(controller) if controller in UNMEASURED else [])


@pytest.mark.parametrize("controller", UNMEASURED, ids=repr)
def test_a_controller_that_looks_at_no_measures_decides_whatever_they_are(controller: Controller) -> None:
    others = replace(MEASURED, clock=3, workers={"worker/0": WorkerMeasure(7.0, 1.0)}, bandwidths={}, nbytes=8)
    assert decided(controller, others) == decided(controller) != []


def test_several_keep_their_states_apart_and_have_their_own_turns() -> None:
    both = Several((StepBytes(every=4), BatchShares(every=6)))
    assert both.traits.every == 2
    assert both.traits.sees_others
    first, state = both.decide(replace(MEASURED, clock=4), {})
    assert [each.setting for each in first] == [ControlledSetting.NBYTES]
    second, state = both.decide(replace(MEASURED, clock=6), state)
    assert second == [Decision(ControlledSetting.BATCH, 12)]
    assert state == {"1/batch": torch.tensor(8.0)}


@pytest.mark.parametrize("controller", [SharedRanges(), LinkRanges(), StepBytes()], ids=repr)
def test_a_worker_that_sends_nothing_learns_of_no_bandwidth(controller: Controller) -> None:
    """Nothing, sent to nobody, may take longer than a step where the machine is busy."""
    times = itertools.count(start=0.0, step=1.0)
    group: Any = SimpleNamespace(members=("worker/0",), size=1)
    port: Any = SimpleNamespace(name="worker/0", now=lambda: next(times))
    context: Any = SimpleNamespace()
    loop = ControlLoop(controller, group, port, context)
    loop.leaves("", 0)
    loop.stepped(controller.traits.every, 0.1, 8)
    assert loop.bandwidths == {}
    assert loop.values == {}


@pytest.mark.parametrize("break_at", range(1, 10))
def test_a_loop_that_is_resumed_between_two_decisions_decides_the_same(break_at: int) -> None:
    def loop() -> ControlLoop:
        port: Any = SimpleNamespace(name="worker/0", now=lambda: 0.0)
        context: Any = SimpleNamespace(record=lambda event: None)
        group: Any = SimpleNamespace(members=("worker/0",), size=1)
        made = ControlLoop(SharedRanges(every=5), group, port, context)
        made.nbytes = 40_000
        return made

    def step(at: ControlLoop, clock: int) -> None:
        at.sent("", 3000 * clock, 0.5)
        at.stepped(clock, 0.1 * clock, 8)

    whole, before, after = loop(), loop(), loop()
    for clock in range(1, 11):
        step(whole, clock)
        step(before if clock <= break_at else after, clock)
        if clock == break_at:
            after.restore(before.export())
    assert after.values == whole.values != {}
    assert after.bandwidths == whole.bandwidths


def loop_of(rank: int, members: tuple[str, ...], controller: Controller, events: list[Any]) -> ControlLoop:
    port: Any = SimpleNamespace(name=members[rank], now=lambda: 0.0)
    context: Any = SimpleNamespace(record=events.append)
    group: Any = SimpleNamespace(members=members, size=len(members))
    return ControlLoop(controller, group, port, context)


def test_parts_of_a_replica_have_the_decisions_of_the_first_and_none_where_it_has_none() -> None:
    """Groups of workers 0 and 2, and of 1 and 3, who hold the parts of two replicas: the teacher is a replica."""
    events: list[Any] = []
    both = Several((BatchShares(), BestWorker()))
    first = loop_of(0, ("worker/0", "worker/2"), both, events)
    second = loop_of(0, ("worker/1", "worker/3"), both, events)
    assert first.decides_for_replica
    second.values = {(ControlledSetting.BATCH, ""): 64.0, (ControlledSetting.TEACHER, ""): 1.0}
    second.follow(10, first.of_replica)
    assert second.values == {}
    first.values = {(ControlledSetting.BATCH, ""): 80.0, (ControlledSetting.TEACHER, ""): 2.0, (ControlledSetting.NBYTES, "worker/2"): 9.0}
    second.follow(20, first.of_replica)
    assert second.values == {(ControlledSetting.BATCH, ""): 80.0, (ControlledSetting.TEACHER, ""): 3.0}
    assert [(each.actor, each.clock, each.setting, each.value) for each in events] == [
        ("worker/1", 20, "samples a batch", 80.0),
        ("worker/1", 20, "worker to learn from", 3.0),
    ]
    assert not loop_of(0, ("worker/0",), LinkRanges(), events).decides_for_replica


def test_measures_of_workers_of_another_mesh_are_left_behind() -> None:
    """A checkpoint of worker 0's among 0 and 2, which held the same part, is resumed by 0 and 1."""
    before, after = (loop_of(0, ("worker/0", name), BatchShares(), []) for name in ("worker/2", "worker/1"))
    before.sent("worker/2", 3000, 0.5)
    before.workers = {"worker/0": TWO["worker/0"], "worker/2": TWO["worker/1"]}
    before.bandwidths = {"worker/2": 3.0}
    before.values = {(ControlledSetting.BATCH, ""): 9.0, (ControlledSetting.NBYTES, "worker/2"): 5.0}
    after.restore(before.export())
    assert after.workers == {"worker/0": TWO["worker/0"]}
    assert after.bandwidths == after.bytes_and_seconds == {}
    assert after.values == {(ControlledSetting.BATCH, ""): 9.0}


def test_a_packet_for_the_slowest_link_has_a_byte_at_least_since_none_would_set_no_bound() -> None:
    slow = replace(MEASURED, bandwidths={"worker/1": 0.5})
    assert decided(StepBytes(), slow) == [(ControlledSetting.NBYTES, "worker/1", 1)]


def test_what_cannot_be_is_refused() -> None:
    for piece, wrong, reason in (
        (SharedRanges, {"every": 0}, "never decide"),
        (LinkRanges, {"most": 0}, "fewer than one range"),
        (StepBytes, {"share": 0.0}, "send nothing"),
        (BatchShares, {"growth": 0.5}, "growth"),
        (Several, {"controllers": (StepBytes(), StepBytes())}, "two controllers of bytes"),
    ):
        with pytest.raises(CompositionError, match=reason):
            piece(**wrong)
    with pytest.raises(CompositionError, match="sets partitions, which TopK does not have"):
        Strategy(consistency=Asynchronous(), topology=AllToAll(), codec=TopK(0.1), controller=SharedRanges())
    with pytest.raises(CompositionError, match="add shuffle=OwnPace"):
        Strategy(consistency=Asynchronous(), topology=AllToAll(), controller=BatchShares())


FAST = Network.uniform("falling", "40 Mbit/s", "1 ms")
STEADY = Fleet((Profile("measured", (0.002,)),))
LONG = Toy(lambda parameters: torch.optim.SGD(parameters, lr=0.02), epochs=40, batch_size=4)


def settings(strategy: Strategy, network: Network, workers: int = 3, devices: Fleet = STEADY) -> list[Adjusted | Stepped]:
    found = run(LONG, workers=workers, strategy=strategy, on=Simulator(network=network, devices=devices))
    return [event for event in found.outcome.events if isinstance(event, (Adjusted, Stepped))]


@pytest.mark.parametrize("system", ["ako", *(pytest.param(name, marks=pytest.mark.long) for name in ("hong-chandra", "dlion"))])
def test_a_line_that_becomes_slow_changes_the_settings_within_twenty_steps(system: str) -> None:
    falls = 0.3
    network = replace(FAST, changes=tuple(ChangeEntry(at=falls, host=host, egress="1 Mbit/s") for host in range(3)))
    events = settings(systems.find(system), network)
    setting = "bytes" if system == "dlion" else "partitions"
    mine = [event for event in events if event.actor == "worker/0"]
    before = [event.value for event in mine if isinstance(event, Adjusted) and event.setting == setting and event.time < falls]
    fell = max(event.clock for event in mine if isinstance(event, Stepped) and event.time < falls)
    after = [event for event in mine if isinstance(event, Adjusted) and event.setting == setting and event.time > falls]
    less = [event for event in after if (event.value < before[-1] / 2 if setting == "bytes" else event.value > 2 * before[-1])]
    assert less[0].clock <= fell + 20
    assert events != settings(systems.find(system), FAST)


@pytest.mark.parametrize("system", ["hong-chandra", "dlion"])
def test_what_has_not_left_for_many_steps_already_shows_how_slow_the_line_is(system: str) -> None:
    falls = 0.3
    network = replace(FAST, changes=tuple(ChangeEntry(at=falls, host=host, egress="10 kbit/s") for host in range(3)))
    events = [event for event in settings(systems.find(system), network) if event.actor == "worker/0"]
    fell = max(event.clock for event in events if isinstance(event, Stepped) and event.time < falls)
    after = [
        event.clock for event in events if isinstance(event, Adjusted) and event.setting in ("bytes", "partitions") and event.time > falls
    ]
    assert after[0] <= fell + 10


def test_batches_follow_the_speed_of_workers() -> None:
    uneven = Fleet((Device("small", 2e6, 0.0005),), (Mixed((1.0, 0.5, 0.25)),))
    events = settings(systems.find("dlion"), FAST, devices=uneven)
    last = {event.actor: event.value for event in events if isinstance(event, Adjusted) and event.setting == "samples a batch"}
    assert last["worker/0"] > last["worker/1"] > last["worker/2"]


@pytest.mark.parametrize("topology", [PartialExchange(), LinkExchange()], ids=repr)
@pytest.mark.parametrize("codec", [Ranges(1), MaxN(100), ErrorFeedback(MaxN(100))], ids=repr)
def test_one_partition_and_everything_are_all_to_all(topology: PartialExchange, codec: Ranges | MaxN) -> None:
    toy = Toy(lambda parameters: torch.optim.SGD(parameters, lr=0.05, momentum=0.9), epochs=2)
    whole = weights(toy, 3, Strategy(consistency=BulkSynchronous(), topology=AllToAll()))
    assert torch.equal(weights(toy, 3, Strategy(consistency=BulkSynchronous(), topology=topology, codec=codec)), whole)


def test_what_is_computed_while_a_link_is_busy_is_sent_with_the_next_packet() -> None:
    slow = Simulator(network=Network.uniform("thin", "0.2 Mbit/s", "1 ms"), devices=STEADY)
    found = run(LONG, workers=2, strategy=Strategy(consistency=Asynchronous(), topology=LinkExchange()), on=slow)
    steps = found.summary.steps
    assert found.summary.messages_sent < steps / 2
    assert math.isfinite(found.final["loss"])


def test_a_model_whose_steps_count_no_samples_has_no_shares_of_them() -> None:
    """As the second of several models: the samples of a step count with the first."""
    nothing = {name: replace(each, samples=0.0) for name, each in MEASURED.workers.items()}
    assert decided(BatchShares(), replace(MEASURED, workers=nothing)) == []
