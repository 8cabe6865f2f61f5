"""Servers of groups that mirror each other: what they agree on, what passes between sites, and who waits for whom."""

import pytest
import torch
from toy import Toy, trained, weights

from polyrhythm import systems
from polyrhythm.codec import ErrorFeedback, Relative
from polyrhythm.consistency import Asynchronous, Bounded, LocalSteps
from polyrhythm.core.kernel.events import Sent
from polyrhythm.core.processes import Processes
from polyrhythm.core.protocols.groups import Groups
from polyrhythm.core.protocols.topology import Topology
from polyrhythm.core.simulator.simulator import Simulator
from polyrhythm.core.strategy import Exchange, Hierarchical, Strategy
from polyrhythm.errors import CompositionError
from polyrhythm.groups import InGroups, OfSize
from polyrhythm.hardware.devices import Device
from polyrhythm.hardware.network import Network, Site
from polyrhythm.merge import Sum
from polyrhythm.topology import AllReduce, Mirrors, Overlay, Server

PAIRS = [("a", "b"), ("b", "a")]
SITES = Network.joined("two sites", [Site("a", 1e8, 1e8), Site("b", 1e8, 1e8)], dict.fromkeys(PAIRS, 0.05), dict.fromkeys(PAIRS, 1e6))
TOY = Toy(epochs=4)


def crossing(strategy: Strategy, workers: int = 4) -> tuple[float, float]:
    """Bytes between the sites, and the seconds of virtual time."""
    run = trained(TOY, workers, strategy, Simulator(network=SITES, record_sends=True))
    sites = {f"worker/{rank}": rank * 2 // workers for rank in range(workers)} | {"server/0": 0, "server/1": 1}
    sent = [event for event in run.outcome.events if isinstance(event, Sent) and sites[event.actor] != sites[event.to]]
    assert run.summary.virtual_seconds is not None
    assert run.summary.bytes_between_sites == sum(event.nbytes for event in sent), "every message is counted where it crosses"
    return run.summary.bytes_between_sites, run.summary.virtual_seconds


@pytest.mark.parametrize("shards", [1, 2])
@pytest.mark.parametrize("groups", [InGroups(1), InGroups(2), OfSize(1)], ids=repr)
@pytest.mark.parametrize("mirrors", [Mirrors(), Overlay(), systems.find("gaia", site_slack=0).topology], ids=repr)
def test_without_threshold_and_lead_mirrors_are_one_server(mirrors: Topology, groups: Groups, shards: int) -> None:
    inner = Exchange(consistency=LocalSteps(1, Bounded(0)), topology=Server(shards))
    sums = Exchange(consistency=LocalSteps(1, Bounded(0)), topology=mirrors, codec=ErrorFeedback(Relative(0)), merge=Sum())
    found = weights(TOY, 4, Strategy(exchange=Hierarchical(inner=inner, outer=sums, groups=groups)), Simulator(network=SITES))
    torch.testing.assert_close(found, weights(TOY, 4, Strategy()), rtol=1e-4, atol=1e-5)


def test_the_filter_saves_most_of_the_bytes_between_sites_and_the_time() -> None:
    gaia, flat = crossing(systems.find("gaia", threshold=0.05)), crossing(systems.find("allreduce"))
    assert gaia[0] < flat[0] / 2  # of a model of 171 elements: headers and the first weights are most of it
    assert gaia[1] < flat[1] / 2


def test_a_site_waits_when_it_is_too_far_ahead_of_the_slowest() -> None:
    seconds = [crossing(systems.find("gaia", threshold=0.05, site_slack=lead))[1] for lead in (0, 4, 1000)]
    assert seconds[0] > seconds[1] > 0.9 * seconds[2]


@pytest.mark.parametrize("on", [Simulator(network="wan-11"), Processes(cuda=False)], ids=["virtual", "real"])
def test_gaia_trains_in_both_runtimes(on) -> None:  # type: ignore[no-untyped-def]
    run = trained(Toy(epochs=8), 4, systems.find("gaia", groups=2), on)
    assert run.final["loss"] < 0.9
    assert run.summary.bytes_sent > 0


def test_servers_run_at_the_sites_of_their_groups() -> None:
    run = trained(TOY, 4, "gaia", Simulator(network=SITES, record_sends=True))
    pairs = {(event.actor, event.to) for event in run.outcome.events if isinstance(event, Sent)}
    assert ("worker/2", "server/1") in pairs
    assert ("worker/2", "server/0") not in pairs


def test_hubs_send_each_other_one_packet_a_step_for_all_of_their_groups() -> None:
    sides = {f"server/{rank}": rank // 2 for rank in range(4)}
    on, counts = Simulator(network=SITES, devices=Device("slow", 1e5), record_sends=True), []
    for hubs in (1, 2):
        run = trained(TOY, 4, systems.find("gaia", threshold=0, groups=1, hubs=hubs), on)
        sent = [event for event in run.outcome.events if isinstance(event, Sent) and {event.actor, event.to} <= sides.keys()]
        counts.append(len([event for event in sent if event.topic.endswith("/u") and sides[event.actor] != sides[event.to]]))
    steps = TOY.epochs * 3
    assert counts[0] >= 8 * steps
    assert counts[1] <= 4 * steps, "2 a step, and some more where members have come at different times"


def test_what_workers_do_counts_for_them_in_full_among_mirrors_too() -> None:
    """As among Addair's actors: a threshold that nothing reaches leaves everybody with its own updates."""
    alone = Strategy(consistency=LocalSteps(1000))
    actors = Strategy(consistency=LocalSteps(1, Asynchronous()), topology=Mirrors(), codec=ErrorFeedback(Relative(1e6)))
    one_epoch = Toy(epochs=1)
    first = trained(one_epoch, 2, actors)
    assert first.final["loss"] == pytest.approx(trained(one_epoch, 2, alone).final["loss"])


def test_other_exchanges_among_servers_are_refused() -> None:
    with pytest.raises(CompositionError, match=r"The servers of groups exchange updates as peers, and .* does otherwise: take Mirrors\(\)"):
        Hierarchical(inner=Exchange(topology=Server()), outer=Exchange(topology=AllReduce()))
