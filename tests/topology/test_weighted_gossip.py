"""Mixing matrices, and gossip with them."""

from __future__ import annotations

import networkx
import numpy as np
import pytest
import torch
from endpoints import context_of, worker_end
from schedules import Schedule
from toy import Toy, weights

from polyrhythm.codec import Cast, Identity
from polyrhythm.consistency import LocalSteps
from polyrhythm.core.kernel.names import worker
from polyrhythm.core.protocols.codec import Codec
from polyrhythm.core.protocols.topology import InitialState
from polyrhythm.core.strategy import Strategy
from polyrhythm.core.tensors import Layout
from polyrhythm.core.weights.state import ModelState
from polyrhythm.errors import CompositionError
from polyrhythm.local_rules import CorrectedWeights, TrackedGradients
from polyrhythm.merge import Elastic, Mean
from polyrhythm.topology import (
    AllReduce,
    Dissemination,
    FixedGraph,
    Gossip,
    Lazy,
    MetropolisHastings,
    RandomPairs,
    RingGraph,
    UniformWeights,
    WeightedGossip,
)
from polyrhythm.topology.graphs.graph import Graph
from polyrhythm.topology.graphs.mixing_weights import MixingWeights, least_eigenvalue, matrix

STAR = FixedGraph.of(networkx.star_graph(5))
GRAPHS: tuple[tuple[Graph, int], ...] = (
    *((RingGraph(), workers) for workers in (1, 2, 3, 4, 7)),
    *((FixedGraph.of(graph), len(graph)) for graph in (networkx.star_graph(5), networkx.path_graph(4), networkx.complete_graph(5))),
)
WEIGHTS = (MetropolisHastings(), UniformWeights(), Lazy(MetropolisHastings(), 0.25))
LAYOUT = Layout(("w",), ((6,),))


@pytest.mark.parametrize(("graph", "workers"), GRAPHS, ids=str)
@pytest.mark.parametrize("rule", WEIGHTS, ids=repr)
def test_a_mixing_matrix_is_symmetric_doubly_stochastic_and_mixes(graph: Graph, workers: int, rule: MixingWeights) -> None:
    mixing = matrix(graph, rule, workers)
    assert np.array_equal(mixing, mixing.T)
    assert (mixing >= 0).all()
    np.testing.assert_allclose(mixing.sum(0), 1)
    eigenvalues = np.linalg.eigvalsh(mixing)
    assert eigenvalues[0] > -1
    assert workers == 1 or eigenvalues[-2] < 1, "a graph that is connected brings all to the mean"
    assert least_eigenvalue(graph, rule, workers) == pytest.approx(eigenvalues[0])


def test_many_workers_have_a_bound_instead_of_an_eigenvalue() -> None:
    assert least_eigenvalue(RingGraph(), Lazy(MetropolisHastings(), 0.25), 600) == pytest.approx(0)
    assert least_eigenvalue(RingGraph(), MetropolisHastings(), 600) == pytest.approx(-1 / 3)


@pytest.mark.parametrize("codec", [Identity(), Cast(torch.bfloat16)], ids=repr)
def test_the_mean_stays_whatever_the_degrees_and_whatever_the_codec_loses(codec: Codec) -> None:
    strategy, draw = Strategy(consistency=LocalSteps(1), topology=WeightedGossip(STAR), codec=codec), np.random.default_rng(3)
    schedule, states = Schedule(3), [ModelState(torch.zeros(6), LAYOUT, Mean(), context_of(6), None) for _ in range(6)]
    steps = [[torch.from_numpy(draw.normal(size=6)) for _ in range(4)] for _ in range(6)]

    async def live(rank: int, state: ModelState) -> None:
        channel = strategy.topology.channel(strategy.agreement, worker_end(schedule.port(worker(rank)), 6, 0, 3))
        (await channel.establish(InitialState(state, ""))).apply(state)
        for clock, step in enumerate(steps[rank], 1):
            state.adopt(state.weights + step)
            (await channel.exchange(state.weights, clock, (0.1,))).apply(state)

    for rank, state in enumerate(states):
        schedule.start(worker(rank), live(rank, state))
    assert schedule.run()
    schedule.close()
    produced = sum(torch.stack(each).sum(0) for each in steps)
    torch.testing.assert_close(sum(state.weights for state in states), produced, check_dtype=False, rtol=0, atol=1e-5)


def test_equal_weights_for_everyone_are_averaging_over_a_graph_and_over_a_complete_one_averaging_over_all() -> None:
    ring = Strategy(consistency=LocalSteps(1), topology=Gossip(RingGraph()))
    torch.testing.assert_close(weights(Toy(), 5, "decentralized"), weights(Toy(), 5, ring), rtol=0, atol=1e-5)
    complete = WeightedGossip(FixedGraph.of(networkx.complete_graph(4)), UniformWeights())
    everyone = [weights(Toy(), 4, Strategy(consistency=LocalSteps(1), topology=topology)) for topology in (complete, AllReduce())]
    torch.testing.assert_close(*everyone, rtol=0, atol=1e-5)


@pytest.mark.parametrize("graph", [Dissemination(), RandomPairs()], ids=repr)
def test_a_graph_that_changes_is_refused(graph: Graph) -> None:
    with pytest.raises(CompositionError, match="same ones, both ways: give RingGraph"):
        WeightedGossip(graph).workers(8)


def test_what_does_not_fit_is_refused() -> None:
    def composed(**pieces: object) -> Strategy:
        return Strategy(consistency=LocalSteps(1), **pieces)  # type: ignore[arg-type]

    with pytest.raises(CompositionError, match="WeightedGossip needs vectors that neighbours mix, and Elastic makes something else"):
        composed(topology=WeightedGossip(), merge=Elastic())
    with pytest.raises(
        CompositionError, match="needs mixing by one symmetric matrix, the same in every exchange, as over WeightedGossip, and over Gossip"
    ):
        composed(topology=Gossip(), local=CorrectedWeights())
    with pytest.raises(CompositionError, match="TrackedGradients needs vectors that neighbours mix, and Elastic makes something else"):
        composed(topology=Gossip(), merge=Elastic(), local=TrackedGradients())
    with pytest.raises(CompositionError, match="TrackedGradients"):
        composed(topology=AllReduce(), local=TrackedGradients())
    with pytest.raises(CompositionError, match="give the part that stays"):
        Lazy(MetropolisHastings(), 1.0)


def test_a_matrix_with_too_small_an_eigenvalue_is_refused() -> None:
    strategy = Strategy(consistency=LocalSteps(1), topology=WeightedGossip(), local=CorrectedWeights())
    strategy.exchange.check(5)
    with pytest.raises(CompositionError, match=r"mixing matrix of 4 workers is -0.333, and it must be above -0.333. Keep more"):
        strategy.exchange.check(4)
