"""The bound holds in whole runs, on workers of very different speeds and under any order of simultaneous events."""

from __future__ import annotations

import pytest
from toy import Toy, trained

from polyrhythm.consistency import Asynchronous, Bounded, BulkSynchronous, LocalSteps, SoftSync
from polyrhythm.core.kernel.events import Merged, Stepped
from polyrhythm.core.protocols.consistency import Consistency
from polyrhythm.core.simulator.simulator import Simulator
from polyrhythm.core.strategy import Strategy
from polyrhythm.hardware.devices import DEVICES
from polyrhythm.hardware.fleet import Fleet, Jitter, Mixed
from polyrhythm.hardware.network import Network
from polyrhythm.topology import AllToAll, Server

UNEVEN = Fleet((DEVICES["cpu-core"],), (Mixed((1.0, 0.6, 0.2)), Jitter(0.5)))


def spread(rule: Consistency, topology: object, seed: int) -> int:
    """How far the fastest worker ever was ahead of the slowest, in ended steps."""
    network = Network.uniform("fast", "10 Gbit/s", "1 us")
    on = Simulator(network=network, devices=UNEVEN, seed=seed, shuffle_ties=seed)
    run = trained(Toy(batch_size=4, epochs=2), 3, Strategy(consistency=rule, topology=topology), on, seed)  # type: ignore[arg-type]
    clocks, widest = {f"worker/{rank}": 0 for rank in range(3)}, 0
    for event in run.outcome.events:
        if isinstance(event, Stepped):
            clocks[event.actor] = event.clock
            widest = max(widest, max(clocks.values()) - min(clocks.values()))
    return widest


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("topology", [Server(1), Server(2), AllToAll()], ids=repr)
@pytest.mark.parametrize("slack", [0, 1, 3])
def test_no_worker_is_ever_further_ahead_than_the_bound(slack: int, topology: object, seed: int) -> None:
    assert spread(LocalSteps(1, Bounded(slack)), topology, seed) <= slack + 1  # the step that may proceed ends before the others' next
    assert spread(Bounded(slack), topology, seed) <= slack + 1


@pytest.mark.parametrize("topology", [Server(1), AllToAll()], ids=repr)
def test_lockstep_keeps_everyone_within_one_step_and_free_does_not(topology: object) -> None:
    assert spread(BulkSynchronous(), topology, 0) <= 1
    assert spread(Asynchronous(), topology, 0) > 3


@pytest.mark.parametrize(("groups", "workers"), [(1, 12), (3, 12), (12, 12)])
def test_mean_staleness_of_softsync_is_about_its_number_of_groups(groups: int, workers: int) -> None:
    on = Simulator(network="lan", devices=Fleet((DEVICES["cpu-core"],), (Jitter(0.2),)), seed=1)
    run = trained(Toy(batch_size=1, epochs=10), workers, Strategy(consistency=SoftSync(groups), topology=Server(1)), on)
    stale = [late for event in run.outcome.events if isinstance(event, Merged) for late in event.staleness]
    assert sum(stale) / len(stale) == pytest.approx(groups, rel=0.35)
    assert sum(late <= 2 * groups for late in stale) / len(stale) > 0.99
