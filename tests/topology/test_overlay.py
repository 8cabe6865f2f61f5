"""An overlay of mirrors: every update reaches every mirror once, whatever way it takes, and nobody reads what is announced as stale."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from endpoints import context_of, worker_end
from schedules import Schedule
from torch import Tensor

from polyrhythm.codec import ErrorFeedback, Identity, Relative, TopK
from polyrhythm.consistency import Asynchronous, Bounded, LocalSteps
from polyrhythm.core.kernel.names import worker
from polyrhythm.core.protocols.codec import Codec
from polyrhythm.core.protocols.consistency import Consistency
from polyrhythm.core.protocols.topology import InitialState
from polyrhythm.core.strategy import Strategy
from polyrhythm.core.tensors import Layout
from polyrhythm.core.weights.state import ModelState
from polyrhythm.errors import CompositionError
from polyrhythm.merge import Sum
from polyrhythm.topology import Overlay, RoundTrips, SelectiveBarrier
from polyrhythm.topology.overlay.barriers import announced, announcement
from polyrhythm.topology.overlay.hub_groups import HubGroups
from polyrhythm.topology.overlay.overlay_channel import OverlayChannel

LAYOUT = Layout(("a", "b"), ((4, 3), (5,)))


class Always:
    """A barrier before every packet."""

    def announces(self, seconds: float, step: float) -> bool:
        return True


EVERYTHING = Always()


class Site:
    """An actor that applies what it produces to its own weights at once, as a server does, and sends it to the others."""

    def __init__(self, strategy: Strategy, schedule: Schedule, rank: int, sites: int, values: Sequence[Tensor]) -> None:
        self.state = ModelState(torch.zeros(LAYOUT.numel), LAYOUT, strategy.merge, context_of(sites, rank), None)
        channel = strategy.topology.channel(strategy.agreement, worker_end(schedule.port(worker(rank)), sites))
        assert isinstance(channel, OverlayChannel)
        self.channel = channel
        self.values = values
        self.stale_reads = 0
        self.leads: list[float] = []
        schedule.start(worker(rank), self._live())

    async def _live(self) -> None:
        (await self.channel.establish(InitialState(self.state, ""))).apply(self.state)
        for clock, value in enumerate(self.values, 1):
            self.stale_reads += len(self.channel.stale_elements())  # it computes on all of its weights
            self.state.weights.sub_(value)
            (await self.channel.exchange(value, clock, ())).apply(self.state)
            self.leads.append(clock - self.channel.slowest)
        (await self.channel.finish()).apply(self.state)


def sites_of(overlay: Overlay, codec: Codec, rule: Consistency, seed: int, count: int) -> tuple[Schedule, list[Site]]:
    strategy = Strategy(consistency=LocalSteps(1, rule), topology=overlay, codec=codec, merge=Sum())
    draw, schedule = np.random.default_rng(seed), Schedule(seed)
    steps = int(draw.integers(1, 6))
    values = [[torch.from_numpy(draw.integers(-8, 9, LAYOUT.numel)).float() for _ in range(steps)] for _ in range(count)]
    return schedule, [Site(strategy, schedule, rank, count, values[rank]) for rank in range(count)]


@pytest.mark.parametrize("codec", [Identity(), ErrorFeedback(TopK(0.2)), ErrorFeedback(Relative(0.5, floor=4.0))], ids=repr)
@pytest.mark.parametrize(
    "overlay", [Overlay(), Overlay(2), Overlay(3, turn=2, barrier=EVERYTHING), Overlay(5), Overlay(((0, 4), (2, 1, 3)))]
)
@pytest.mark.parametrize("rule", [Bounded(0), Bounded(2), Asynchronous()], ids=repr)
def test_every_site_has_its_own_updates_whole_and_of_others_all_but_what_they_keep(
    overlay: Overlay, codec: Codec, rule: Consistency
) -> None:
    for seed in range(6):
        schedule, sites = sites_of(overlay, codec, rule, seed, 5)
        assert schedule.run()
        produced = sum((value for site in sites for value in site.values), torch.zeros(LAYOUT.numel))
        for site in sites:
            kept = sum((other.channel.states()[0][1] for other in sites if other is not site), torch.zeros(LAYOUT.numel))
            assert torch.equal(-site.state.weights + kept, produced)
            assert not site.channel.pending
            assert not any(sender.pending for sender in site.channel.senders.values())
        schedule.close()


@pytest.mark.parametrize("groups", [1, 2])
def test_while_a_barrier_is_up_no_worker_reads_an_element_that_was_announced_as_stale(groups: int) -> None:
    announcements = 0
    for seed in range(40):
        schedule, sites = sites_of(Overlay(groups, barrier=EVERYTHING), ErrorFeedback(TopK(0.3)), Asynchronous(), seed, 4)
        while not schedule.run(until=schedule.steps + 5):
            announcements += sum(bool(site.channel.stale) for site in sites)
        assert sum(site.stale_reads for site in sites) == 0
        schedule.close()
    assert announcements > 100, "there is something to wait for"


@pytest.mark.parametrize("slack", [0, 1, 3])
@pytest.mark.parametrize("groups", [1, 3])
def test_no_site_is_further_ahead_than_the_consistency_has_it(groups: int, slack: int) -> None:
    for seed in range(10):
        schedule, sites = sites_of(Overlay(groups), Identity(), Bounded(slack), seed, 5)
        assert schedule.run()
        assert max(lead for site in sites for lead in site.leads) <= slack
        schedule.close()


def test_the_clock_allows_what_is_done_in_a_round_trip() -> None:
    assert RoundTrips(1.0).lead(round_trip=0.3, step=0.05) == 6
    assert RoundTrips().lead(0.3, 0.07) == 9
    assert RoundTrips().lead(0.001, 1.0) == 1, "a step at least, or nobody would go on"
    assert RoundTrips().lead(math.inf, 1.0) == RoundTrips().lead(0.3, 0.0) == math.inf, "before it is measured there is no bound"


@pytest.mark.parametrize(("marked", "dtype"), [(0, torch.int32), (3, torch.int32), (4, torch.uint8), (100, torch.uint8)])
def test_elements_are_announced_in_the_shorter_way(marked: int, dtype: torch.dtype) -> None:
    value = torch.zeros(100)
    value[torch.randperm(100, generator=torch.Generator().manual_seed(0))[:marked]] = -2.0
    sent = announcement(value)
    assert sent.dtype is dtype
    assert announced(sent, 100).tolist() == value.nonzero().view(-1).tolist()


def test_every_member_has_its_turn_as_the_hub() -> None:
    groups = HubGroups.of(3, 2, 7)
    assert groups.ranks == ((0, 1, 2), (3, 4, 5), (6,))
    assert [groups.hub(1, clock) for clock in range(7)] == [0, 0, 1, 1, 2, 2, 0]
    assert groups.hubs(4, 2) == [1, 6]
    assert groups.others(4) == [3, 5]
    with pytest.raises(CompositionError, match="in exactly one group"):
        HubGroups.of([[0, 1], [1, 2]], 1, 3)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Overlay(0), "size of groups"),
        (lambda: Overlay(turn=0), "the steps of a turn"),
        (lambda: SelectiveBarrier(-1), "at least 0"),
        (lambda: SelectiveBarrier(math.nan), "at least 0"),
        (lambda: RoundTrips(0), "above 0"),
    ],
)
def test_settings_without_meaning_are_refused(make, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(CompositionError, match=message):
        make()
