"""Messages to many in closed form: what they take is what they take one by one, where all workers send as much at the same time."""

from __future__ import annotations

import pytest
from toy import SLOW, Toy

import polyrhythm as pr
from polyrhythm.core.kernel.job import WorkerContext
from polyrhythm.core.kernel.message import Message
from polyrhythm.core.kernel.names import rank_of, worker
from polyrhythm.core.simulator.collectives import ClosedForm, Collectives, Messages
from polyrhythm.core.simulator.simulator import Simulator
from polyrhythm.hardware.network import Network, Site, load

from .scenes import PLAIN, job, play

SITES = (Site("near", 1000.0, 700.0, 0.1), Site("far", 500.0, 2000.0, 0.2, uplink=900.0), Site("third", 800.0, 800.0, 0.0, downlink=400.0))
PAIRS = [(a.name, b.name) for a in SITES for b in SITES if a != b]
UNEQUAL = Network.joined("unequal", SITES, dict.fromkeys(PAIRS, 0.5), {("near", "far"): 300.0, ("third", "near"): 150.0})
NETWORKS = {"plain": PLAIN, "unequal": UNEQUAL, "wan-3": load("wan-3"), "cloud": load("cloud")}


def arrivals(
    network: Network, workers: int, collectives: Collectives, sizes: tuple[int, ...]
) -> tuple[dict[tuple[int, int], list[float]], tuple[object, ...]]:
    """When each message arrived, by sender and receiver, and what was sent in all; all workers send messages of these `sizes` in turn."""
    found: dict[tuple[int, int], list[float]] = {}

    def program(context: WorkerContext) -> None:
        port, rank = context.port, rank_of(context.port.name)
        others = [worker(other) for other in range(workers) if other != rank]

        async def exchange() -> None:
            for size in sizes:
                await port.send_all(others, Message("all", text="x" * size))
                await port.flush()
                found.setdefault((rank, rank), []).append(port.now())
            for _ in range(len(sizes) * len(others)):
                delivery = await port.receive("all")
                assert delivery is not None
                found.setdefault((rank_of(delivery.sender), rank), []).append(port.now())

        context.perform(exchange())

    ending, _ = play(job(*[program] * workers), Simulator(network=network, collectives=collectives))
    return found, (ending.bytes_sent, ending.messages_sent, ending.bytes_between_sites)


@pytest.mark.parametrize("workers", [2, 3, 7])
@pytest.mark.parametrize("network", NETWORKS.values(), ids=NETWORKS)
def test_they_arrive_when_single_messages_would(network: Network, workers: int) -> None:
    closed, sent = arrivals(network, workers, ClosedForm(), (1000,))
    single, sent_singly = arrivals(network, workers, Messages(), (1000,))
    assert closed.keys() == single.keys()
    for pair, times in closed.items():
        assert times == pytest.approx(single[pair], rel=1e-9)
    assert sent == sent_singly


def test_what_one_sends_arrives_in_order() -> None:
    times, _ = arrivals(PLAIN, 3, ClosedForm(), (1000, 10))
    first, second = times[0, 1]
    assert first < second


def test_to_one_that_is_alone_or_to_servers_messages_go_singly() -> None:
    runs = [pr.run(Toy(), workers=3, strategy="ssp", on=Simulator(network=SLOW, collectives=each)) for each in (ClosedForm(), Messages())]
    assert len({run.summary.weights_sha256 for run in runs}) == 1


def test_what_workers_send_to_all_costs_the_simulator_one_event_for_each_site_and_trains_as_well() -> None:
    closed, single = (
        pr.run(Toy(), workers=4, strategy="ako", on=Simulator(network="wan-3", collectives=each)) for each in (ClosedForm(), Messages())
    )
    assert closed.summary.steps == single.summary.steps
    assert closed.summary.bytes_sent == pytest.approx(single.summary.bytes_sent, rel=0.1)
