"""Push-sum: weights and mass change by the workers' own steps alone, wherever they are."""

from __future__ import annotations

from typing import Any

import networkx
import numpy as np
import pytest
import torch
from endpoints import context_of, worker_end
from schedules import Schedule
from toy import SLOW, Toy, trained, weights

from polyrhythm.codec import Cast, Identity
from polyrhythm.consistency import LocalSteps
from polyrhythm.core.kernel.names import worker
from polyrhythm.core.protocols.codec import Codec
from polyrhythm.core.protocols.topology import InitialState
from polyrhythm.core.simulator import Simulator
from polyrhythm.core.strategy import Strategy
from polyrhythm.core.tensors import Layout
from polyrhythm.core.weights.state import ModelState
from polyrhythm.errors import CompositionError
from polyrhythm.merge import Elastic, Mean
from polyrhythm.systems import find
from polyrhythm.topology import FAMILIES, CompleteGraph, Dissemination, FixedGraph, Gossip, PushSum, Torus
from polyrhythm.topology.graphs.graph import Graph

LAYOUT = Layout(("a", "b"), ((4, 3), (5,)))


class Crew:
    """Workers whose steps are drawn, in a seeded schedule; `produced` is the sum of the steps that were exchanged."""

    def __init__(self, workers: int, seed: int, topology: PushSum, codec: Codec, steps: int) -> None:
        strategy = Strategy(consistency=LocalSteps(1), topology=topology, codec=codec)
        self.schedule = Schedule(seed)
        self.draw = np.random.default_rng(seed)
        self.steps = steps
        self.produced = torch.zeros(LAYOUT.numel, dtype=torch.float64)
        ports = [self.schedule.port(worker(rank)) for rank in range(workers)]
        self.channels: list[Any] = [strategy.topology.channel(strategy.agreement, worker_end(port, workers, 0, seed)) for port in ports]
        zeros = [torch.zeros(LAYOUT.numel, dtype=torch.float64) for _ in ports]
        self.states = [ModelState(zero, LAYOUT, Mean(), context_of(workers), None) for zero in zeros]
        for rank in range(workers):
            self.schedule.start(worker(rank), self._live(rank))

    async def _live(self, rank: int) -> None:
        channel, state = self.channels[rank], self.states[rank]
        (await channel.establish(InitialState(state, ""))).apply(state)
        for clock in range(1, 1 + self.steps):
            step = torch.from_numpy(self.draw.integers(-8, 9, LAYOUT.numel)).double()
            state.adopt(state.weights + step)
            self.produced = self.produced + step
            (await channel.exchange(state.weights, clock, (0.1,))).apply(state)
        (await channel.finish()).apply(state)

    def totals(self) -> tuple[torch.Tensor, float]:
        """Weights and mass that all hold, or that are under way."""
        weights, mass = torch.zeros(LAYOUT.numel, dtype=torch.float64), 0.0
        for rank, channel in enumerate(self.channels):
            messages = [m for (_, to), queue in self.schedule.under_way.items() if to == worker(rank) for m in queue]
            messages += [d.message for (name, _), box in self.schedule.mail.items() if name == worker(rank) for d in box]
            coming = [(channel.coded.decode(m.tensors), m.numbers[0]) for m in messages if m.topic.isdigit()]
            coming += [(share.weights, share.mass) for shares in channel.came.values() for share in shares]
            for value, share in ((channel.held.weights, channel.held.mass), *coming):
                weights, mass = weights + value, mass + share
        return weights, mass


@pytest.mark.parametrize("codec", [Identity(), Cast(torch.float16)], ids=repr)
@pytest.mark.parametrize("overlap", [0, 1, 3])
@pytest.mark.parametrize("graph", [*FAMILIES, FixedGraph.of(networkx.star_graph(4))], ids=repr)
def test_weights_and_mass_change_by_the_workers_own_steps_alone(graph: Graph, overlap: int, codec: Codec) -> None:
    for seed in range(3):
        crew = Crew(5, seed, PushSum(graph, overlap), codec, steps=4)
        for until in (60, 100, 140, 180):
            crew.schedule.run(until)
            if all(channel.coded.layout.names for channel in crew.channels):
                weights, mass = crew.totals()
                assert mass == pytest.approx(5)
                torch.testing.assert_close(weights, crew.produced, rtol=0, atol=1e-9)
        assert crew.schedule.run()
        for state in crew.states:
            torch.testing.assert_close(state.weights * 5, crew.produced, rtol=0, atol=1e-9)
            assert torch.equal(state.weights, crew.states[0].weights)
        crew.schedule.close()


def test_on_a_graph_that_balances_it_has_the_bits_of_gossip() -> None:
    graph = Dissemination(rotate=False)
    gossip = Strategy(consistency=LocalSteps(1), topology=Gossip(graph))
    for workers in (1, 4):
        assert torch.equal(weights(Toy(), workers, "sgp"), weights(Toy(), workers, gossip))


def test_where_everyone_pushes_to_everyone_all_have_the_mean_after_every_step() -> None:
    complete = Strategy(consistency=LocalSteps(1), topology=PushSum(CompleteGraph()))
    torch.testing.assert_close(weights(Toy(), 4, complete), weights(Toy(), 4, "allreduce"))


def test_what_travels_while_the_worker_computes_costs_less_time() -> None:
    seconds = [trained(Toy(), 4, find("sgp", overlap=overlap), Simulator(network=SLOW)).summary.virtual_seconds for overlap in (0, 1, 2)]
    assert seconds[0] > seconds[1] > seconds[2]  # type: ignore[operator]


def test_nothing_else_merges_shares_and_no_exchange_comes_before_it_was_made() -> None:
    with pytest.raises(CompositionError, match=r"PushSum.* and Elastic.* do not fit"):
        Strategy(consistency=LocalSteps(1), topology=PushSum(), merge=Elastic())
    for overlap in (-1, True, 0.5):
        with pytest.raises(CompositionError, match="is no number of exchanges: give 0 or more"):
            PushSum(Torus(), overlap)  # type: ignore[arg-type]
