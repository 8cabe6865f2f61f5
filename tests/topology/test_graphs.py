"""Who exchanges with whom, over the list of graphs."""

from __future__ import annotations

import networkx
import pytest
import torch
from endpoints import context_of

from polyrhythm.core.kernel.group import Group
from polyrhythm.core.protocols.merge import Merge
from polyrhythm.merge import Elastic, Mean
from polyrhythm.topology import FAMILIES, BipartiteGraph, Dissemination, FixedGraph, Torus
from polyrhythm.topology.graphs.graph import Graph

EVERY = (*FAMILIES, BipartiteGraph(), FixedGraph.of(networkx.star_graph(6)), FixedGraph.of(networkx.cycle_graph(8)))
every_graph = pytest.mark.parametrize("graph", EVERY, ids=lambda graph: type(graph).__name__)


def sizes(graph: Graph) -> tuple[int, ...]:
    """Numbers of workers that the graph has room for."""
    return (graph.nodes,) if isinstance(graph, FixedGraph) else (1, 2, 3, 5, 8)


def places(workers: int) -> list[Group]:
    return [Group.of_workers(workers, rank, 3) for rank in range(workers)]


def mixed(graph: Graph, merge: Merge, step: int, values: list[torch.Tensor]) -> list[torch.Tensor]:
    """One exchange."""
    workers = len(values)
    return [
        merge.mix(values[group.rank], [values[k] for k in senders], context_of(workers))
        if (senders := graph.neighbours(step, group)[1])
        else values[group.rank]
        for group in places(workers)
    ]


@every_graph
def test_each_hears_from_exactly_those_who_send_to_it_and_never_from_itself(graph: Graph) -> None:
    for workers in sizes(graph):
        for step in range(12):
            pairs = [graph.neighbours(step, group) for group in places(workers)]
            for rank, (receivers, senders) in enumerate(pairs):
                assert rank not in receivers
                assert len(set(senders)) == len(senders)
                assert sorted(senders) == [other for other in range(workers) if rank in pairs[other][0]]


@pytest.mark.parametrize("graph", FAMILIES, ids=repr)
def test_mixing_keeps_the_mean(graph: Graph) -> None:
    for workers in (2, 3, 8):
        values = [torch.tensor([float(rank**2)], dtype=torch.float64) for rank in range(workers)]
        mean = sum(values) / workers
        for step in range(9):
            values = mixed(graph, Mean(), step, values)
            torch.testing.assert_close(sum(values) / workers, mean)


def test_on_a_graph_of_unequal_degrees_the_spring_keeps_the_mean_and_averaging_does_not() -> None:
    graph, values = FixedGraph.of(networkx.star_graph(6)), [torch.tensor([float(rank**2)], dtype=torch.float64) for rank in range(7)]
    torch.testing.assert_close(sum(mixed(graph, Elastic(), 0, values)), sum(values))
    assert not torch.allclose(sum(mixed(graph, Mean(), 0, values)), sum(values))  # type: ignore[arg-type]


@pytest.mark.parametrize("rotate", [False, True])
@pytest.mark.parametrize("workers", [2, 4, 16])
def test_dissemination_brings_a_power_of_two_to_the_exact_mean_in_log_p_steps(workers: int, rotate: bool) -> None:
    values = [torch.tensor([float(rank)]) for rank in range(workers)]
    for step in range(workers.bit_length() - 1):
        values = mixed(Dissemination(rotate), Mean(), step, values)
    assert all(value == (workers - 1) / 2 for value in values)


def test_rotation_lets_everyone_meet_everyone() -> None:
    for rotate, partners in ((False, 4), (True, 15)):
        met = {graph_to for step in range(200) for graph_to in Dissemination(rotate).neighbours(step, Group.of_workers(16, 5, 3))[0]}
        assert len(met) == partners


@pytest.mark.parametrize("workers", [2, 5, 6, 12])
@pytest.mark.parametrize("graph", FAMILIES, ids=repr)
def test_over_its_steps_there_is_a_way_from_everyone_to_everyone(graph: Graph, workers: int) -> None:
    ways = networkx.DiGraph()
    for step in range(4 * workers):
        ways.add_edges_from((group.rank, to) for group in places(workers) for to in graph.neighbours(step, group)[0])
    assert ways.number_of_nodes() == workers
    assert networkx.is_strongly_connected(ways)


@pytest.mark.parametrize("graph", [*FAMILIES, FixedGraph.of(networkx.star_graph(4))], ids=repr)
def test_shares_of_a_worker_add_up_to_what_it_had(graph: Graph) -> None:
    for step in range(6):
        mixing = torch.zeros(5, 5, dtype=torch.float64)
        for group in places(5):
            receivers, _ = graph.neighbours(step, group)
            for to in (group.rank, *receivers):
                mixing[to, group.rank] += 1 / (1 + len(receivers))
        torch.testing.assert_close(mixing.sum(0), torch.ones(5, dtype=torch.float64))


def test_a_torus_is_a_grid_as_nearly_square_as_there_are_workers_for() -> None:
    for workers, degree in ((12, 4), (9, 4), (7, 2), (4, 2), (2, 1), (1, 0)):
        assert {len(Torus().neighbours(0, group)[0]) for group in places(workers)} == {degree}
    assert Torus().neighbours(0, Group.of_workers(12, 5))[0] == (1, 4, 6, 9)
