"""Exchanges of two levels: what members and groups make of each other's contributions, and what passes between groups."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from toy import Toy, network, trained, weights

from polyrhythm.codec import ErrorFeedback, SharedK, TopK
from polyrhythm.consistency import Asynchronous, Bounded, LocalSteps
from polyrhythm.core.kernel.events import Sent
from polyrhythm.core.kernel.location import Location
from polyrhythm.core.kernel.message import DIMENSION_BYTES, HEADER_BYTES, TENSOR_HEADER_BYTES
from polyrhythm.core.processes import Processes
from polyrhythm.core.simulator.simulator import Instant, Simulator
from polyrhythm.core.strategy import Exchange, Hierarchical, Leaders, Strategy, Stripes
from polyrhythm.core.training.run import run
from polyrhythm.errors import CompositionError
from polyrhythm.groups import MEMBERS as GROUPS
from polyrhythm.groups import BySite, Given, InGroups, OfSize
from polyrhythm.hardware.network import Network, Site
from polyrhythm.merge import Elastic, Nesterov, OuterOptimizer, SampleMean, Sum
from polyrhythm.topology import Adasum, AllReduce, AverageWeights, Direct, Gossip, Ring, Server, Tree

MOMENTUM = Toy(lambda parameters: torch.optim.SGD(parameters, lr=0.05, momentum=0.9))
OUTER = [
    Exchange(topology=AllReduce(Tree())),
    Exchange(topology=Server(2)),
    Exchange(consistency=LocalSteps(3), merge=OuterOptimizer(Nesterov(0.5))),
    Exchange(consistency=LocalSteps(2), topology=Server(2)),
    Exchange(consistency=LocalSteps(2), topology=Gossip()),
    Exchange(consistency=LocalSteps(2), topology=AverageWeights(), codec=SharedK(0.5)),
]
LOOSE = [
    Exchange(consistency=Asynchronous(), topology=Server(2)),
    Exchange(consistency=LocalSteps(1, Bounded(2)), topology=Server()),
    Exchange(consistency=LocalSteps(2, Asynchronous()), topology=Server(), merge=Elastic()),
]
ACROSS = [Leaders(), Stripes()]


def levels(**settings) -> Strategy:  # type: ignore[no-untyped-def]
    return Strategy(exchange=Hierarchical(**settings))


@pytest.mark.parametrize("across", ACROSS, ids=repr)
@pytest.mark.parametrize("outer", OUTER, ids=repr)
def test_groups_of_one_are_the_outer_exchange(outer: Exchange, across) -> None:  # type: ignore[no-untyped-def]
    assert torch.equal(
        weights(MOMENTUM, 3, levels(outer=outer, groups=OfSize(1), across=across)), weights(MOMENTUM, 3, Strategy(exchange=outer))
    )


@pytest.mark.parametrize("across", ACROSS, ids=repr)
def test_one_group_is_the_inner_exchange(across) -> None:  # type: ignore[no-untyped-def]
    for inner in (Exchange(topology=AllReduce(Direct())), Exchange(topology=AllReduce(Tree()))):
        assert torch.equal(
            weights(MOMENTUM, 4, levels(inner=inner, groups=InGroups(1), across=across)), weights(MOMENTUM, 4, Strategy(exchange=inner))
        )


@pytest.mark.parametrize("groups", GROUPS, ids=repr)
@pytest.mark.parametrize("across", ACROSS, ids=repr)
def test_two_levels_of_means_are_the_mean(groups, across) -> None:  # type: ignore[no-untyped-def]
    network = Network.joined("two", [Site("a", 1e8, 1e8), Site("b", 1e8, 1e8)], {("a", "b"): 0.01, ("b", "a"): 0.01}, {})
    found = weights(MOMENTUM, 4, levels(groups=groups, across=across), Simulator(network=network))
    torch.testing.assert_close(found, weights(MOMENTUM, 4, Strategy()), rtol=1e-5, atol=1e-6)


def test_groups_of_unequal_sizes_count_by_their_sizes() -> None:
    found = weights(MOMENTUM, 4, levels(groups=[[0, 1, 2], [3]]))
    torch.testing.assert_close(found, weights(MOMENTUM, 4, Strategy()), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("across", ACROSS, ids=repr)
@pytest.mark.parametrize("outer", OUTER, ids=repr)
def test_real_processes_give_the_same_bits_and_bytes(outer: Exchange, across) -> None:  # type: ignore[no-untyped-def]
    strategy = levels(outer=outer, groups=OfSize(2), across=across)
    virtual, real = (trained(MOMENTUM, 4, strategy, on) for on in (Simulator(network=Instant()), Processes(cuda=False)))
    assert virtual.summary.weights_sha256 == real.summary.weights_sha256
    assert (virtual.summary.bytes_sent, virtual.summary.messages_sent) == (real.summary.bytes_sent, real.summary.messages_sent)


@pytest.mark.parametrize("outer", LOOSE, ids=repr)
def test_groups_need_not_wait_for_each_other(outer: Exchange) -> None:
    run = trained(Toy(epochs=6), 6, levels(outer=outer, groups=InGroups(3)), Simulator())
    assert run.final["loss"] < 1.0
    assert run.summary.lost == []


@pytest.mark.parametrize("across", ACROSS, ids=repr)
def test_averaged_weights_of_groups_are_averaged_updates(across) -> None:  # type: ignore[no-untyped-def]
    weighed, updated = (
        levels(outer=Exchange(consistency=LocalSteps(2), **how), groups=OfSize(2), across=across)
        for how in ({"topology": AverageWeights()}, {})
    )
    torch.testing.assert_close(weights(MOMENTUM, 4, weighed), weights(MOMENTUM, 4, updated), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("topology", [AverageWeights(), Gossip()], ids=repr)
def test_weights_of_unequal_groups_are_refused(topology) -> None:  # type: ignore[no-untyped-def]
    outer = Exchange(consistency=LocalSteps(2), topology=topology)
    with pytest.raises(CompositionError, match=r"sizes, 1, 3 members, count by their sizes.*exchange their weights as they are"):
        weights(MOMENTUM, 4, levels(outer=outer, groups=[[0, 1, 2], [3]]))


def test_three_levels_are_two_whose_outer_one_has_two() -> None:
    nested = levels(groups=OfSize(2), outer=Hierarchical(groups=OfSize(2)))
    torch.testing.assert_close(weights(MOMENTUM, 8, nested), weights(MOMENTUM, 8, Strategy()), rtol=1e-5, atol=1e-6)


def test_local_steps_inside_of_local_steps() -> None:
    strategy = levels(inner=Exchange(consistency=LocalSteps(2)), outer=Exchange(consistency=LocalSteps(4)), groups=OfSize(2))
    run = trained(Toy(epochs=4), 4, strategy)
    flat = trained(Toy(epochs=4), 4, Strategy(consistency=LocalSteps(4)))
    assert run.final["loss"] < 1.05 * flat.final["loss"]


def test_a_codec_and_a_merge_at_the_outer_level_only() -> None:
    outer = Exchange(codec=ErrorFeedback(TopK(1.0)), merge=Sum())
    torch.testing.assert_close(
        weights(Toy(), 4, levels(outer=outer, groups=OfSize(1))), weights(Toy(), 4, Strategy(merge=Sum())), rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize("across", ACROSS, ids=repr)
@pytest.mark.parametrize(("workers", "count"), [(8, 2), (9, 3)])
def test_between_groups_goes_two_times_all_but_one_part_of_the_model(across, workers: int, count: int) -> None:  # type: ignore[no-untyped-def]
    groups = [rank * count // workers for rank in range(workers)]
    crossing = {"flat": 0, "levels": 0}
    for name, strategy in (("flat", Strategy(topology=AllReduce(Ring()))), ("levels", levels(groups=InGroups(count), across=across))):
        run = trained(Toy(epochs=1), workers, strategy, Simulator(record_sends=True))
        for event in run.outcome.events:
            if isinstance(event, Sent) and "init" not in event.topic and "others" not in event.topic:
                ends = [groups[int(actor.partition("/")[2])] for actor in (event.actor, event.to)]
                header = HEADER_BYTES + TENSOR_HEADER_BYTES + DIMENSION_BYTES + len(event.topic)
                crossing[name] += (event.nbytes - header) * (ends[0] != ends[1])
        steps = run.summary.steps
    model = 4 * (10 * 12 + 12 + 12 * 3 + 3)
    assert crossing["levels"] == steps * 2 * (count - 1) * model  # each of G groups sends 2 (G - 1) / G
    assert crossing["flat"] == pytest.approx(steps * count * 2 * (workers - 1) / workers * model, rel=0.02)  # pieces differ by an element


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"inner": Exchange(consistency=LocalSteps(1), topology=Gossip())}, "does not leave a group's members with equal weights"),
        ({"inner": Exchange(consistency=LocalSteps(2))}, "Inside groups updates are exchanged, when the gradients are spent"),
        ({"inner": Exchange(merge=Sum())}, r"Sum\(\) is no average"),
        ({"outer": LOOSE[0], "across": Stripes()}, r"across=Stripes\(\) joins the stripes of one exchange"),
        ({"outer": Exchange(topology=Adasum()), "across": Stripes()}, r"Stripes\(\) cuts tensors, and Adasum\(\) combines each by"),
        ({"groups": "continent"}, "groups='continent' is no way to form groups: give 'site' or 'host', a size, or lists of ranks"),
        ({"groups": 0}, "has empty groups"),
        ({"inner": Ring()}, r"exchange=Ring\(\) cannot be used as exchange"),
    ],
)
def test_levels_that_do_not_fit_are_refused(settings, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(CompositionError, match=message):
        Hierarchical(**settings)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"groups": [[0, 1, 2], [3]], "across": Stripes()}, r"needs groups of equal size, and these have 1, 3 members"),
        ({"groups": [[0, 1], [2]]}, "does not contain each of the ranks 0 to 3 exactly once"),
    ],
)
def test_workers_that_do_not_form_the_groups_are_refused(settings, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(CompositionError, match=message):
        trained(Toy(), 4, levels(**settings))


@pytest.mark.parametrize("groups", GROUPS, ids=repr)
def test_every_worker_is_in_one_group(groups) -> None:  # type: ignore[no-untyped-def]
    locations = [Location("ab"[rank // 2], f"host/{rank}") for rank in range(4)]
    assert sorted(rank for group in groups.divide(locations) for rank in group) == [0, 1, 2, 3]


def test_groups_by_site_follow_the_network() -> None:
    locations = Simulator(network="wan-11").locations(22)
    assert [len(group) for group in BySite().divide(locations)] == [2] * 11
    assert Given(((1,), (0,))).divide(locations[:2]) == [[1], [0]]


@pytest.mark.parametrize("across", ACROSS, ids=repr)
def test_a_merge_that_weighs_by_samples_sees_those_of_each_group(across) -> None:  # type: ignore[no-untyped-def]
    def counting(samples: Callable[[int], int]) -> Callable[[Any], None]:
        def train(worker: Any) -> None:
            model = network()
            model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.1))
            for _ in range(3):
                worker.count(samples(worker.rank))
                optimizer.zero_grad()
                ((worker.rank + 1.0) * model(torch.ones(2, 10))).square().mean().backward()
                optimizer.step()

        return train

    outer = Exchange(topology=Server(), merge=SampleMean())
    strategy = levels(inner=Exchange(), outer=outer, groups=OfSize(2), across=across)
    even, uneven = (
        run(counting(samples), workers=4, strategy=strategy, on=Simulator(network=Instant()), seed=1).summary.weights_sha256
        for samples in (lambda rank: 4, lambda rank: 1 + rank // 2 * 6)
    )
    assert even != uneven
