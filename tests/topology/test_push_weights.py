"""Weights that are pushed or pulled at any time, whole or in parts."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from endpoints import context_of, worker_end
from schedules import Schedule
from torch import Tensor
from toy import SLOW, Toy, trained, weights

from polyrhythm.consistency import Asynchronous, LocalSteps
from polyrhythm.core.kernel.names import worker
from polyrhythm.core.protocols.topology import InitialState, Topology
from polyrhythm.core.protocols.traits import MergeTraits, Payload
from polyrhythm.core.simulator import Simulator
from polyrhythm.core.strategy import Strategy
from polyrhythm.core.tensors import Layout
from polyrhythm.core.weights.state import ModelState
from polyrhythm.errors import CompositionError
from polyrhythm.merge import Mean
from polyrhythm.systems import find
from polyrhythm.topology import FixedGraph, PullWeights, PushParts, PushWeights

LAYOUT = Layout(("a", "b"), ((4, 3), (4,)))
PAIR = FixedGraph(((0, 1),), 2)


def exchanged(topology: Topology, seed: int, steps: int = 1, begins: float = 8.0) -> tuple[list[ModelState], list[Any]]:
    """Two workers, at 0 and 8 everywhere before their first exchange, after the last; nothing but the end is outstanding."""
    strategy = Strategy(consistency=LocalSteps(1, Asynchronous()), topology=topology)
    schedule = Schedule(seed)
    ports = [schedule.port(worker(rank)) for rank in range(2)]
    channels = [topology.channel(strategy.agreement, worker_end(port, 2, 0, seed)) for port in ports]
    states = [ModelState(torch.zeros(LAYOUT.numel), LAYOUT, Mean(), context_of(2, rank), None) for rank in range(2)]

    async def live(rank: int) -> None:
        channel, state = channels[rank], states[rank]
        (await channel.establish(InitialState(state, ""))).apply(state)
        state.adopt(torch.full((LAYOUT.numel,), rank * begins))
        for clock in range(1, steps + 1):
            for _ in range(3):
                await ports[rank].sleep(1.0)
            (await channel.exchange(state.weights, clock, (0.1,))).apply(state)

    for rank in range(2):
        schedule.start(worker(rank), live(rank))
    assert schedule.run()
    schedule.close()
    return states, channels


def test_who_pulls_has_the_mean_of_both_and_who_responds_stays() -> None:
    for seed in range(10):
        states, _ = exchanged(PullWeights(PAIR), seed)
        for state in states:
            value = state.weights.unique()
            assert value.numel() == 1
            assert value.item() in (0.0, 2.0, 4.0, 6.0, 8.0)
        assert any(state.weights[0].item() == 4.0 for state in states)


@pytest.mark.parametrize("parts", [1, 2, 4, 100])
def test_a_part_that_has_come_is_mixed_and_the_rest_stays(parts: int) -> None:
    layouts = [part for part in LAYOUT.split(parts) if part.names]
    mixed = []
    for seed in range(20):
        state = exchanged(PushParts(PAIR, parts), seed, steps=2)[0][0]
        ranges = LAYOUT.cut(state.weights, layouts)
        assert all(part.unique().numel() == 1 for part in ranges)
        mixed.append(sum(bool(part[0]) for part in ranges))
    assert max(mixed) == min(2, len(layouts))
    assert min(mixed) == 0


def test_the_newest_of_each_sender_takes_the_place_of_what_was_not_looked_at() -> None:
    _, channels = exchanged(PushWeights(PAIR), 0, steps=5)
    assert all(len(channel.inbox) <= 1 for channel in channels)


class Watched:
    """A merge that keeps what it saw of the ranges that it merged."""

    traits = MergeTraits(frozenset({Payload.WEIGHTS}), sees_moved=True)

    def __init__(self) -> None:
        self.seen: list[tuple[int, int, int]] = []

    def mix(self, mine: Tensor, theirs: Any, context: Any) -> Tensor:
        self.seen.append((mine.numel(), context.layout.numel, context.moved.numel()))
        assert torch.equal(context.weights, mine)
        return Mean().mix(mine, theirs, context)


def test_a_merge_sees_the_part_that_was_sent_and_no_more() -> None:
    merge = Watched()
    state = ModelState(torch.arange(16.0), LAYOUT, merge, context_of(2), None)
    state.set_anchor()
    before, part = LAYOUT.split(2)
    state.mix_part(before.numel, part, [torch.zeros(part.numel)])
    assert merge.seen == [(part.numel,) * 3]
    assert torch.equal(state.weights, torch.cat([torch.arange(9.0), torch.arange(9.0, 16.0) / 2]))


@pytest.mark.parametrize("options", [{}, {"pull": True}], ids=["push", "pull"])
def test_gossiping_alone_is_plain_sgd(options: dict[str, Any]) -> None:
    assert torch.equal(weights(Toy(), 1, find("gossiping-sgd", period=2, **options)), weights(Toy(), 1, "single"))


def test_pushing_costs_no_time_and_pulling_a_way_there_and_back() -> None:
    seconds = {
        pull: trained(Toy(), 4, find("gossiping-sgd", period=1, pull=pull), Simulator(network=SLOW)).summary.virtual_seconds or 0.0
        for pull in (False, True)
    }
    assert seconds[False] < seconds[True]


def test_one_node_has_the_result_of_keuper() -> None:
    run = trained(Toy(epochs=6), 4, "keuper-asgd", Simulator(network=SLOW))
    assert run.final["loss"] < 1.0


def test_parts_that_cannot_be_are_refused() -> None:
    for parts in (0, -1, True, 1.5):
        with pytest.raises(CompositionError, match="is no number of parts: give 1"):
            PushParts(parts=parts)  # type: ignore[arg-type]
