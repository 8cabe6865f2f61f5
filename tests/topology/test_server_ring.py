"""A ring of servers: the same bits as one server without a delay, and no update lost or doubled whenever servers are lost."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor, nn
from toy import Toy, trained, weights

from polyrhythm.codec import KeyList
from polyrhythm.consistency import Asynchronous, Bounded, BoundedDelay, BulkSynchronous
from polyrhythm.core.kernel.events import Merged, Stepped
from polyrhythm.core.processes import Processes
from polyrhythm.core.protocols.consistency import Consistency
from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.protocols.merge import AnyContribution, Direction
from polyrhythm.core.simulator.simulator import Simulator
from polyrhythm.core.strategy import Strategy
from polyrhythm.core.training.run import run
from polyrhythm.errors import CompositionError, WorkerFailed
from polyrhythm.hardware.devices import DEVICES
from polyrhythm.hardware.faults import Crash
from polyrhythm.hardware.fleet import Fleet, Jitter, Mixed
from polyrhythm.hardware.network import Network
from polyrhythm.merge import Sum
from polyrhythm.topology import ChangedRows, EvenRows, HashRing, Server, ServerRing

STEPS, WORKERS, NUMEL = 6, 4, 40
NETWORK = Network.uniform("lan", "100 Mbit/s", "1 ms")


def counting(worker: Any) -> None:
    """Every step adds whole numbers to the weights: the gradient of Σ c w is c, whatever the weights are."""
    model = nn.Linear(10, 4, bias=False)
    nn.init.zeros_(model.weight)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    model, optimizer = worker.attach(model, optimizer)
    for step in range(STEPS):
        worker.count(1)
        optimizer.zero_grad()
        (model.weight * amount(worker.rank, step)).sum().backward()
        optimizer.step()


def amount(rank: int, step: int) -> Tensor:
    """What worker `rank` takes from the weights in a step (4, 10)."""
    return torch.randint(-8, 9, (4, 10), generator=torch.Generator().manual_seed(100 * rank + step)).float()


def counted(topology: ServerRing, rule: Consistency, faults: list[Crash], seed: int) -> Tensor:
    strategy = Strategy(consistency=rule, topology=topology, merge=Sum(), codec=KeyList())
    done = run(counting, workers=WORKERS, strategy=strategy, on=Simulator(network=NETWORK, faults=faults, shuffle_ties=seed), seed=seed)
    return done.weights["weight"]


@dataclass(frozen=True)
class KillsOnce:
    """Adds up, and kills its server's process at the first merge after the second step, where the file `marker` is not there yet."""

    marker: str
    traits: ClassVar = Sum.traits
    rule: ClassVar = None

    def combine(self, contributions: Sequence[AnyContribution], context: ExchangeContext) -> Direction:
        if context.clock >= 2:
            with suppress(FileExistsError):
                os.close(os.open(self.marker, os.O_CREAT | os.O_EXCL))
                os.kill(os.getpid(), signal.SIGKILL)
        return Sum().combine(contributions, context)

    def scale(self, step: int, workers: int) -> float:
        return Sum().scale(step, workers)


EXPECTED = -torch.stack([amount(rank, step) for rank in range(WORKERS) for step in range(STEPS)]).sum(0)


@pytest.mark.parametrize("rule", [BoundedDelay(0), BoundedDelay(2), BoundedDelay(None), Asynchronous()], ids=repr)
def test_whenever_a_server_is_lost_no_update_is_lost_or_doubled(rule: Consistency) -> None:
    draw = random.Random(repr(rule))
    for seed in range(6):
        topology = ServerRing(3, replicas=1, division=EvenRows())
        crash = Crash(f"server/{draw.randrange(3)}", at=draw.uniform(0, 0.03))
        assert torch.equal(counted(topology, rule, [crash], seed), EXPECTED), (seed, crash)


@pytest.mark.long
@pytest.mark.parametrize("rule", [BoundedDelay(0), BoundedDelay(1), BoundedDelay(3), BoundedDelay(None), Bounded(2)], ids=repr)
def test_as_many_servers_may_be_lost_as_there_are_replicas_at_any_times(rule: Consistency) -> None:
    draw = random.Random(repr(rule))
    for seed in range(60):
        topology = ServerRing(4, replicas=2, division=draw.choice([EvenRows(), HashRing(2)]))
        lost = draw.sample(range(4), draw.randrange(3))
        faults = sorted((Crash(f"server/{k}", at=draw.uniform(0, 0.05)) for k in lost), key=lambda crash: crash.at)
        assert torch.equal(counted(topology, rule, faults, seed), EXPECTED), (seed, faults)


@pytest.mark.parametrize("delay", [2, *(pytest.param(each, marks=pytest.mark.long) for each in (0, 1, None))])
def test_a_server_whose_process_is_killed_loses_and_doubles_nothing(delay: int | None, tmp_path: Path) -> None:
    marker = tmp_path / "killed"
    strategy = Strategy(
        consistency=BoundedDelay(delay),
        topology=ServerRing(2, replicas=1, division=EvenRows()),
        merge=KillsOnce(str(marker)),
        codec=KeyList(),
    )
    done = run(counting, workers=2, strategy=strategy, on=Processes(), seed=1)
    assert marker.exists()
    assert torch.equal(done.weights["weight"], -torch.stack([amount(rank, step) for rank in range(2) for step in range(STEPS)]).sum(0))


def test_a_run_in_which_a_server_is_lost_ends_with_the_same_bits() -> None:
    strategy = Strategy(consistency=BoundedDelay(0), topology=ServerRing(3, replicas=1))
    toy = Toy(lambda p: torch.optim.Adam(p, lr=0.02), epochs=1)
    undisturbed = weights(toy, 3, strategy, Simulator(network=NETWORK))
    for at in (0.0, 0.004, 0.009, 0.02):
        assert torch.equal(weights(toy, 3, strategy, Simulator(network=NETWORK, faults=[Crash("server/1", at)])), undisturbed)


def test_without_another_copy_the_run_ends_with_an_error_that_names_it() -> None:
    strategy = Strategy(consistency=BoundedDelay(0), topology=ServerRing(3, replicas=1))
    faults = [Crash("server/1", 0.004), Crash("server/2", 0.006)]
    with pytest.raises(WorkerFailed, match="take more replicas"):
        trained(Toy(), 3, strategy, Simulator(network=NETWORK, faults=faults))
    with pytest.raises(WorkerFailed, match="cannot go on without it"):
        trained(Toy(), 3, Strategy(topology=ServerRing(2)), Simulator(network=NETWORK, faults=faults[:1]))


@pytest.mark.parametrize("replicas", [0, 2])
def test_without_a_delay_it_has_the_bits_of_one_server(replicas: int) -> None:
    for make in (lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9), lambda p: torch.optim.Adam(p, lr=0.02)):
        one = weights(Toy(make), 3, Strategy(topology=Server()))
        for rule in (BoundedDelay(0), BulkSynchronous(), Bounded(0)):
            ring = Strategy(consistency=rule, topology=ServerRing(3, replicas, responses=ChangedRows()), codec=KeyList())
            assert torch.equal(weights(Toy(make), 3, ring), one)


def test_what_is_merged_at_once_is_of_one_step_and_no_worker_goes_beyond_the_bound() -> None:

    uneven = Fleet((DEVICES["cpu-core"],), (Mixed((1.0, 0.6, 0.2)), Jitter(0.5)))
    for delay in (0, 1, 3):
        strategy = Strategy(consistency=BoundedDelay(delay), topology=ServerRing(2))
        done = trained(Toy(batch_size=4), 3, strategy, Simulator(network=NETWORK, devices=uneven))
        clocks, widest = dict.fromkeys(("worker/0", "worker/1", "worker/2"), 0), 0
        for event in done.outcome.events:
            if isinstance(event, Stepped):
                clocks[event.actor] = event.clock
                widest = max(widest, max(clocks.values()) - min(clocks.values()))
        assert widest <= delay + 1
        merged = [event for event in done.outcome.events if isinstance(event, Merged)]
        assert len(merged) == 2 * 16
        assert all(len(event.staleness) == 3 for event in merged)
        assert max(late for event in merged for late in event.staleness) <= delay


@pytest.mark.parametrize("on", [Simulator(network=NETWORK), Processes(cuda=False)], ids=["simulator", "processes"])
def test_a_server_requests_a_list_of_keys_that_it_has_forgotten(on: Any) -> None:
    """Workers touch different rows, so that a server which remembers one list has forgotten a worker's when the next push refers to it."""

    def train(worker: Any) -> None:
        model = nn.Embedding(80, 1)
        nn.init.zeros_(model.weight)
        model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=1.0))
        rows = torch.arange(20 * worker.rank, 20 * worker.rank + 40)
        for _ in range(4):
            worker.count(1)
            optimizer.zero_grad()
            model(rows).sum().backward()
            optimizer.step()

    found = []
    for lists in (0, 1, 64):
        strategy = Strategy(consistency=BoundedDelay(1), topology=ServerRing(2, 1, EvenRows(), lists=lists), merge=Sum(), codec=KeyList())
        found.append(run(train, workers=3, strategy=strategy, on=on, seed=3))
    expected = torch.zeros(80, 1)
    for rank in range(3):
        expected[20 * rank : 20 * rank + 40] -= 4
    assert all(torch.equal(done.weights["weight"], expected) for done in found)
    never, once, cached = (done.summary.bytes_sent for done in found)
    assert cached < never
    assert found[1].summary.messages_sent > found[2].summary.messages_sent, "what was forgotten was requested"
    assert once != never


@pytest.mark.parametrize("make", [lambda: ServerRing(0), lambda: ServerRing(2, 2), lambda: ServerRing(2, -1), lambda: ServerRing(lists=-1)])
def test_a_ring_that_cannot_be_is_refused(make) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(CompositionError, match="fewer replicas than servers"):
        make()
