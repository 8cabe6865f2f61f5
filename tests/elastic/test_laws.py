"""What failures cost, in virtual time, beside the formulas that say what they should."""

from __future__ import annotations

import math
import random
import statistics
from dataclasses import dataclass, field
from typing import Any, ClassVar

import pytest
import torch
from test_server_ring import EXPECTED, counted
from torch import nn

import polyrhythm as pr
from polyrhythm.consistency import BoundedDelay, LocalSteps
from polyrhythm.core.kernel.events import Faulted, Merged, Stepped
from polyrhythm.core.kernel.names import worker as named
from polyrhythm.core.protocols.topology import Agreement, Channel, WorkerEndpoint
from polyrhythm.hardware.faults import Crash, Fault, Join, Leave, RandomCrashes, Stall
from polyrhythm.topology import CompleteGraph, Dissemination, EvenRows, PushSum, RandomPairs, ServerRing
from polyrhythm.topology.graphs.grid import line

from .crews import counting, devices, last_steps, played

PEERS = 16
PAIRS = {"period": 1, "outer_momentum": 0.0, "outer_learning_rate": 1.0, "mixing_rate": 1.0}
"""With these settings a step of NoLoCo's outer optimizer is the mean of the pair."""


@dataclass
class Rounds:
    """A training function in which each worker has random values before each of the `rounds`, and notes what it has after it."""

    rounds: int
    seed: int
    before: dict[tuple[int, int], torch.Tensor] = field(default_factory=dict)
    after: dict[tuple[int, int], torch.Tensor] = field(default_factory=dict)

    def __call__(self, worker: pr.Worker) -> None:
        model = nn.Linear(240, 1, bias=False)
        model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=1.0))
        draw = torch.Generator().manual_seed(1000 * self.seed + worker.rank)
        for clock in worker.range(self.rounds):
            value = torch.randn(1, 240, generator=draw)
            worker.count(1)
            optimizer.zero_grad()
            (model.weight * (model.weight.detach() - value)).sum().backward()  # a step at a rate of 1 is to `value`
            optimizer.step()
            self.before[worker.rank, clock] = value[0]
            self.after[worker.rank, clock] = model.weight.detach().clone()[0]


def contraction(system: str, lost: list[int], rounds: int, seed: int, **options: Any) -> tuple[float, float]:
    """The disagreement before and after `rounds` rounds of `PEERS`, those that are `lost` keeping random values: summed squares."""
    train = Rounds(rounds, seed)
    faults = tuple(Crash(named(rank), at=0.5) for rank in lost)
    played(train, PEERS, pr.systems.find(system, **options), faults=faults)
    draw, sums = torch.Generator().manual_seed(10**6 + seed), [0.0, 0.0]
    for clock in range(rounds):
        kept = {rank: torch.randn(240, generator=draw) for rank in lost}
        for place, values in enumerate((train.before, train.after)):
            rows = torch.stack([kept[rank] if rank in kept else values[rank, clock] for rank in range(PEERS)])
            sums[place] += float((rows - rows.mean(0)).square().sum())
    return sums[0], sums[1]


def groups_of_pairs(lost: list[int]) -> float:
    """The number of groups in expectation: a pair is one unless it has lost a member, and each lost peer is one."""
    left = PEERS - len(lost)
    return len(lost) + left - left * (left - 1) / (PEERS - 1) / 2


def groups_on_a_grid(lost: list[int]) -> float:
    """The same for lines of a grid, whose members sum a part each: that of a lost one is in no mean, so each keeps its own of it."""
    found = []
    for axis in (0, 1):
        for members in {line(rank, axis, PEERS, 2) for rank in range(PEERS)}:
            gone = sum(rank in lost for rank in members) / len(members)
            found.append((1 - gone) + gone * (1 - gone) * len(members) + gone * len(members))
    return sum(found) / 2


def dropped(probability: float, seed: int) -> list[int]:
    draw = random.Random(f"{probability} {seed}")
    return [rank for rank in range(1, PEERS) if draw.random() < probability]


CONTRACTIONS = [("noloco", PAIRS, groups_of_pairs), ("moshpit", {}, groups_on_a_grid)]


@pytest.mark.parametrize("runs", [1, pytest.param(20, marks=pytest.mark.long)])
@pytest.mark.parametrize("probability", [0.0, 0.1, 0.3])
@pytest.mark.parametrize(("system", "options", "groups"), CONTRACTIONS, ids=["noloco", "moshpit"])
def test_an_averaging_round_leaves_the_disagreement_of_as_many_groups(
    system: str, options: dict[str, Any], groups: Any, probability: float, runs: int
) -> None:
    """(E[G] - 1) / (N - 1), a lost peer being a group of one: within 2 % over 1,000 rounds, 12 % over 6."""
    rounds, before, after, expected = (50 if runs > 1 else 6), 0.0, 0.0, 0.0
    for seed in range(runs):
        lost = dropped(probability, seed)
        was, became = contraction(system, lost, rounds, seed, **options)
        before, after = before + was, after + became
        expected += (groups(lost) - 1) / (PEERS - 1) / runs
    assert after / before == pytest.approx(expected, rel=0.02 if runs > 1 else 0.12)


def staleness(clients: int, buffer: int, seconds: list[float], reports: int) -> float:
    """The mean staleness of the reports of fedbuff, without those of the beginning and the end."""
    events = played(counting(reports), clients, pr.systems.find("fedbuff", buffer=buffer, period=1), devices=devices(*seconds)).events
    found = [each for event in events if isinstance(event, Merged) for each in event.staleness]
    return statistics.fmean(found[len(found) // 5 : -len(found) // 5])


@pytest.mark.parametrize(("clients", "buffer"), [(4, 2), (8, 1), (8, 4)])
@pytest.mark.parametrize("uneven", [False, True])
def test_reports_to_a_buffer_are_as_stale_as_there_are_other_clients_for_each_merge(clients: int, buffer: int, uneven: bool) -> None:
    """(M - 1) / K within 5 %, whatever their durations are."""
    seconds = [1.0 + 0.37 * (7 * rank % clients) / clients * uneven for rank in range(clients)]
    assert staleness(clients, buffer, seconds, 30) == pytest.approx((clients - 1) / buffer, rel=0.05)


def test_clients_that_are_gone_are_in_no_staleness() -> None:
    faults = tuple(Crash(named(rank), at=2.5) for rank in (5, 6, 7))
    events = played(counting(30), 8, pr.systems.find("fedbuff", buffer=2, period=1), faults=faults).events
    found = [each for event in events if isinstance(event, Merged) and event.time > 6 for each in event.staleness]
    assert statistics.fmean(found[: -len(found) // 5]) == pytest.approx((5 - 1) / 2, rel=0.05)


WAITING = [
    ("allreduce", {}, 0),
    *(("ssp", {"slack": s}, s) for s in (0, 1, 4, 16)),
    ("byteps-async", {}, math.inf),
    ("adpsgd", {}, math.inf),
]


@pytest.mark.parametrize("victim", [0, 2])
@pytest.mark.parametrize("detection", [0.5, 2.0, 6.0, 20.0])
@pytest.mark.parametrize(("system", "options", "slack"), WAITING)
def test_after_a_crash_others_stand_still_until_it_is_noticed_less_their_slack(
    system: str, options: dict[str, Any], slack: float, detection: float, victim: int
) -> None:
    """max(0, D - s t) to a hundredth of a step, for a crash at the end of one."""
    crew, strategy = pr.Crew(1, 4, replace=False), pr.systems.find(system, **options)
    without = last_steps(played(counting(24), crew, strategy).events)
    crashed = last_steps(played(counting(24), crew, strategy, detection=detection, faults=(Crash(named(victim), at=5.999),)).events)
    for name in (named(rank) for rank in range(4) if rank != victim):
        assert crashed[name] - without[name] == pytest.approx(max(0.0, detection - slack), abs=0.01)


@pytest.mark.parametrize("victim", [0, 2])
@pytest.mark.parametrize("system", ["ssp", "sparknet", "poseidon", "byteps", "allreduce", "gossipgrad"])
def test_a_worker_that_is_lost_while_the_others_wait_for_it_holds_up_nobody_for_good(system: str, victim: int) -> None:
    options = {"slack": 0} if system == "ssp" else {"period": 1} if system == "sparknet" else {}
    faults = (Stall(named(victim), at=2.5, duration=5.0), Crash(named(victim), at=5.0))
    crew = pr.Crew(1, 4, replace=False, batch="global")  # else the rate of those that exchange gradients follows the number of workers
    done = played(counting(8), crew, pr.systems.find(system, **options), faults=faults)
    assert set(done.weights["weight"].flatten().tolist()) == {8.0}


@pytest.mark.parametrize("system", ["adpsgd", "fedbuff", "gossipgrad", "downpour", "allreduce"])
@pytest.mark.parametrize("detection", [0.0, 2.0])
def test_a_second_loss_while_the_others_enter_their_view_holds_up_nobody(system: str, detection: float) -> None:
    for later in (0.0, 0.0001, 0.7):
        faults = (Crash("worker/0", at=2.5), Crash("worker/2", at=2.5 + later))
        done = played(counting(10), pr.Crew(1, 4), pr.systems.find(system), detection=detection, startup=1.0, faults=faults)
        assert sorted(done.summary.lost) == ["worker/0", "worker/2"]


def lost_per_failure(system: str, workers: int, seconds: float, seed: int, *faults: Any) -> float:
    """The seconds of workers in which no step was taken, for each failure: detected after 10 s, replaced after 1 s more; steps of 0.5 s."""
    settings = {"devices": devices(0.5), "seed": seed, "detection": 10.0, "startup": 1.0, "faults": faults}
    events = played(counting(int(seconds / 0.5)), pr.Crew(1, workers), pr.systems.find(system), **settings).events
    until = round(0.95 * seconds)  # at the end of a step
    lost = workers * until - 0.5 * sum(isinstance(event, Stepped) and event.time < until + 0.1 for event in events)
    return lost / sum(isinstance(event, Faulted) for event in events)


def slope(small: float, large: float, times: float) -> float:
    """The power of the number of workers with which a cost grows, `times` as many workers apart."""
    return math.log(large / small) / math.log(times)


@pytest.mark.parametrize("victim", [0, 1])
@pytest.mark.parametrize(("system", "least", "most"), [("d2l", 0.9, 1.0), ("adpsgd", -0.1, 0.1), ("byteps-async", -0.1, 0.1)])
def test_what_a_failure_costs_grows_with_a_crew_in_lockstep_and_not_with_others(
    system: str, least: float, most: float, victim: int
) -> None:
    small, large = (lost_per_failure(system, workers, 40.0, 0, Crash(named(victim), at=10.2)) for workers in (2, 32))
    assert least <= slope(small, large, 16) <= most


@pytest.mark.long
def test_random_failures_cost_a_crew_in_lockstep_as_much_as_it_has_workers() -> None:
    rates = RandomCrashes(rate_per_hour=3600 / 2133, horizon=576.0)
    small = statistics.fmean(lost_per_failure("d2l", 2, 640.0, seed, rates) for seed in (1, 3, 5, 9))  # that have failures
    assert 0.9 <= slope(small, lost_per_failure("d2l", 32, 640.0, 0, rates), 16) <= 1.0


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.long), pytest.param(2, marks=pytest.mark.long)])
@pytest.mark.parametrize("copies", [1, 2])
def test_servers_with_copies_lose_nothing_for_as_many_failures(copies: int, seed: int) -> None:
    draw = random.Random(f"{copies} {seed}")
    for _ in range(2):
        faults = sorted((Crash(f"server/{k}", at=draw.uniform(0, 0.05)) for k in draw.sample(range(4), copies)), key=lambda crash: crash.at)
        topology = ServerRing(4, replicas=copies, division=EvenRows())
        assert torch.equal(counted(topology, BoundedDelay(draw.choice([0, 2, None])), faults, seed), EXPECTED), faults


@dataclass(frozen=True)
class Watched:
    """`PushSum`; the channels that it has `made` are kept by their worker."""

    inner: PushSum
    made: dict[str, Any]
    traits: ClassVar = PushSum.traits
    service: ClassVar[None] = None
    result: ClassVar = PushSum.result

    def workers(self, available: int) -> int:
        return self.inner.workers(available)

    def channel(self, agreement: Agreement, endpoint: WorkerEndpoint) -> Channel:
        made = self.made[endpoint.port.name] = self.inner.channel(agreement, endpoint)
        return made


CHANGES: dict[str, tuple[Fault, ...]] = {
    "nothing": (),
    "loss": (Crash("worker/2", at=7.3),),
    "first": (Crash("worker/0", at=7.3),),
    "notice": (Leave("worker/3", at=7.3),),
    "join": (Crash("worker/2", at=3.3), Join(at=9.1)),
    "several": (Crash("worker/4", at=3.7), Leave("worker/1", at=6.1), Crash("worker/0", at=9.2)),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("overlap", [0, 1, 3])
@pytest.mark.parametrize("graph", [Dissemination(rotate=False), CompleteGraph(), RandomPairs()], ids=repr)
def test_the_mass_of_push_sum_is_the_number_of_members_and_no_step_is_lost_or_taken_twice(graph: Any, overlap: int, change: str) -> None:
    made: dict[str, Any] = {}
    strategy = pr.Strategy(consistency=LocalSteps(1), topology=Watched(PushSum(graph, overlap), made))
    speeds = devices(1.0, 1.1, 1.25, 0.9, 1.3, 1.05)
    for detection in (0.0, 2.0):
        made.clear()
        crew = pr.Crew(1, 6, replace=False)
        done = played(counting(14), crew, strategy, network="slow", devices=speeds, faults=CHANGES[change], detection=detection)
        gone = {*done.summary.lost, *(fault.actor for fault in CHANGES[change] if isinstance(fault, Leave))}
        assert sum(made[name].held.mass for name in made.keys() - gone) == pytest.approx(len(made.keys() - gone))
        if not isinstance(graph, RandomPairs):  # there an odd one rests, and what one has is of more steps than what another has
            torch.testing.assert_close(done.weights["weight"], torch.full((1, 3), 14.0))
