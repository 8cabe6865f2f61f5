"""Averages of pairs: the sum over all workers changes by their own steps alone, whatever is under way."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from endpoints import context_of, worker_end
from schedules import Schedule
from toy import SLOW, Toy, trained, weights

from polyrhythm.codec import Cast, Identity
from polyrhythm.consistency import Asynchronous, Bounded, BulkSynchronous, Intervals, LocalSteps
from polyrhythm.core.kernel.names import worker
from polyrhythm.core.protocols.codec import Codec
from polyrhythm.core.protocols.consistency import Consistency
from polyrhythm.core.protocols.merge import WeightMerge
from polyrhythm.core.protocols.topology import InitialState
from polyrhythm.core.simulator import Simulator
from polyrhythm.core.strategy import Strategy
from polyrhythm.core.tensors import Layout
from polyrhythm.core.weights.state import ModelState
from polyrhythm.errors import CompositionError
from polyrhythm.hardware.fleet import Fleet, Mixed
from polyrhythm.merge import Elastic, Mean
from polyrhythm.topology import PairAverages, RingGraph
from polyrhythm.topology.gossip.peer_mail import MAIL
from polyrhythm.topology.graphs.graph import Graph

LAYOUT = Layout(("a", "b"), ((4, 3), (5,)))


class Crew:
    """Workers whose steps are drawn, in a seeded schedule; `produced` is the sum of the steps that were exchanged."""

    def __init__(self, workers: int, seed: int, graph: Graph, codec: Codec, merge: WeightMerge) -> None:
        strategy = Strategy(consistency=LocalSteps(1, Asynchronous()), topology=PairAverages(graph), codec=codec, merge=merge)
        self.schedule = Schedule(seed)
        self.draw = np.random.default_rng(seed)
        self.merge = merge
        self.produced = torch.zeros(LAYOUT.numel, dtype=torch.float64)
        ports = [self.schedule.port(worker(rank)) for rank in range(workers)]
        self.channels: list[Any] = [strategy.topology.channel(strategy.agreement, worker_end(port, workers, 0, seed)) for port in ports]
        zeros = [torch.zeros(LAYOUT.numel, dtype=torch.float64) for _ in ports]
        self.states = [ModelState(zero, LAYOUT, merge, context_of(workers), None) for zero in zeros]
        for rank in range(workers):
            self.schedule.start(worker(rank), self._live(rank))

    async def _live(self, rank: int) -> None:
        channel, state = self.channels[rank], self.states[rank]
        (await channel.establish(InitialState(state, ""))).apply(state)
        for clock in range(1, 1 + int(self.draw.integers(1, 6))):
            step = torch.from_numpy(self.draw.integers(-8, 9, LAYOUT.numel)).double()
            state.adopt(state.weights + step)
            self.produced = self.produced + step
            (await channel.exchange(state.weights, clock, (0.1,))).apply(state)
        (await channel.finish()).apply(state)

    def total(self) -> torch.Tensor:
        """What all hold, and what responses that are under way will add."""
        total = sum((channel.held for channel in self.channels if channel.coded.layout.names), torch.zeros(LAYOUT.numel))
        for rank, channel in enumerate(self.channels):
            coming = [m for (_, to), queue in self.schedule.under_way.items() if to == worker(rank) for m in queue if m.topic == MAIL]
            coming += [delivery.message for delivery in self.schedule.mail[worker(rank), MAIL]]
            for answer in (message for message in coming if message.text == "answer"):
                theirs = channel.coded.decode(answer.tensors)
                total = total + self.merge.mix(channel.sent, [theirs], context_of(len(self.channels))) - channel.sent
        return total


@pytest.mark.parametrize("codec", [Identity(), Cast(torch.float16)], ids=repr)
@pytest.mark.parametrize("merge", [Mean(), Elastic(0.5)], ids=repr)
@pytest.mark.parametrize("graph", [PairAverages().graph, RingGraph()], ids=repr)
def test_the_sum_changes_by_the_workers_own_steps_alone_at_any_pause(graph: Graph, merge: WeightMerge, codec: Codec) -> None:
    for seed in range(10):
        crew = Crew(1 + seed % 5, seed, graph, codec, merge)
        for until in (40, 80, 120, 160):
            crew.schedule.run(until)
            if all(channel.coded.layout.names for channel in crew.channels):
                torch.testing.assert_close(crew.total(), crew.produced, rtol=0, atol=1e-9)
        assert crew.schedule.run()
        for state in crew.states:
            torch.testing.assert_close(state.weights * len(crew.states), crew.produced, rtol=0, atol=1e-9)
            assert torch.equal(state.weights, crew.states[0].weights)
        crew.schedule.close()


def test_a_slow_worker_delays_no_other() -> None:
    on = Simulator(network=SLOW, devices=Fleet(paces=(Mixed((1.0, 1.0, 1.0, 0.1)),)))
    run = trained(Toy(), 4, "adpsgd", on)
    ends = {
        actor: max(e.time for e in run.outcome.events if e.actor == actor and type(e).__name__ == "Stepped")
        for actor in map(worker, range(4))
    }
    assert ends[worker(0)] < ends[worker(3)] / 3


def test_alone_a_worker_takes_plain_steps() -> None:
    assert torch.equal(weights(Toy(), 1, "adpsgd"), weights(Toy(), 1, "single"))


@pytest.mark.parametrize("rule", [BulkSynchronous(), Bounded(3), Intervals()], ids=repr)
def test_a_worker_that_waits_for_others_is_refused(rule: Consistency) -> None:
    with pytest.raises(CompositionError, match=r"PairAverages.* do not fit"):
        Strategy(consistency=rule, topology=PairAverages())
