"""Workers leave and join between two exchanges: nothing that was produced is lost, and nothing counts twice, for every channel."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
import torch
from endpoints import context_of, server_end, worker_end
from schedules import Schedule
from torch import Tensor

from polyrhythm.codec import ErrorFeedback, Identity, Ranges, Striped, Threshold, TopK
from polyrhythm.consistency import Asynchronous, Bounded, BulkSynchronous, Intervals, LocalSteps
from polyrhythm.core.kernel.names import server, worker
from polyrhythm.core.protocols.capability import Capability
from polyrhythm.core.protocols.codec import Codec
from polyrhythm.core.protocols.consistency import Consistency
from polyrhythm.core.protocols.topology import Channel, InitialState, Topology, residual_left, server_count
from polyrhythm.core.protocols.traits import Payload
from polyrhythm.core.strategy import Strategy
from polyrhythm.core.tensors import Layout
from polyrhythm.core.trees import StateTree
from polyrhythm.core.weights.state import ModelState
from polyrhythm.merge import Mean, Sum
from polyrhythm.topology import MEMBERS, AllToAll, BlockStore, Gossip, LinkExchange, Moshpit, PushSum, Server

LAYOUT = Layout(("a", "b"), ((4, 3), (5,)))
CODECS = (Identity(), ErrorFeedback(TopK(0.2)), ErrorFeedback(Threshold(2.0)), Ranges(3))
FITTING = [
    (topology, codec)
    for topology in MEMBERS
    for codec in (*CODECS, Striped(ErrorFeedback(TopK(0.2))))
    if Payload.GRADIENT in topology.traits.payloads and topology.traits.provides >= codec.traits.requires | {Capability.SUMS}
    if not topology.traits.replicas_differ
    if topology != BlockStore()  # it has a slice for each worker, and other numbers of servers cannot be resumed
]
SERVED = (BulkSynchronous(), Bounded(2), Asynchronous(), Intervals(push=2, fetch=3))


@dataclass
class Files:
    """The states of servers, in memory; implements `ServerCheckpoints`."""

    server: str
    states: dict[str, StateTree] = field(default_factory=dict)

    def resume(self, restore: Callable[[StateTree], None], export: Callable[[], StateTree]) -> None:
        if self.server in self.states:
            restore(copy.deepcopy(self.states[self.server]))

    def of(self, server: str) -> Files:
        return Files(server, self.states)

    def write(self, step: int, state: StateTree) -> str:
        self.states[self.server] = copy.deepcopy(state)
        return ""


@dataclass
class Crews:
    """One crew after another; each ends at a cut, from which the next continues. `exported` has a state and the weights of each worker.

    Every worker exchanges whole numbers, so that every sum is exact; `produced` is their sum.
    """

    strategy: Strategy
    seed: int
    files: dict[str, StateTree] = field(default_factory=dict)
    exported: list[tuple[StateTree, Tensor]] = field(default_factory=list)
    produced: Tensor = field(default_factory=lambda: torch.zeros(LAYOUT.numel))
    clock: int = 0

    def exchange(self, count: int, steps: int, ends: bool = False, weights: bool = False) -> None:
        """Let `count` workers take so many steps; then comes a cut, or the run `ends`."""
        topology, draw = self.strategy.topology, np.random.default_rng(self.seed + self.clock)
        self.schedule, count = Schedule(self.seed + self.clock), topology.workers(count)
        shards = server_count(topology, count)
        for k in range(shards):
            end = replace(server_end(self.schedule.port(server(k)), count, shards), checkpoints=Files(server(k), self.files))
            assert topology.service is not None
            self.schedule.start(server(k), topology.service.serve(self.strategy.agreement, end))
        self.states = [ModelState(torch.zeros(LAYOUT.numel), LAYOUT, self.strategy.merge, context_of(count), None) for _ in range(count)]
        ends_of = [worker_end(self.schedule.port(worker(rank)), count, shards, self.seed) for rank in range(count)]
        self.channels = [topology.channel(self.strategy.agreement, end) for end in ends_of]
        values = [[torch.from_numpy(draw.integers(-8, 9, LAYOUT.numel)).float() for _ in range(steps)] for _ in range(count)]
        tasks = [self.schedule.start(worker(k), self._live(k, values[k], ends, weights)) for k in range(count)]
        assert self.schedule.run()
        assert all(task.done for task in tasks), "somebody waits for ever"
        self.exported = [(copy.deepcopy(c.export()), s.weights.clone()) for c, s in zip(self.channels, self.states, strict=True)]
        self.clock += steps
        self.schedule.close()

    async def _live(self, rank: int, values: Sequence[Tensor], ends: bool, weights: bool) -> None:
        channel, state = self.channels[rank], self.states[rank]
        (await channel.establish(InitialState(state, ""))).apply(state)
        if self.exported:
            self._take_over(rank, channel, state)
        for clock, value in enumerate(values, self.clock + 1):
            state.clock = clock
            self.produced = self.produced + value
            if weights:
                state.adopt(state.weights + value)
            (await channel.exchange(state.weights if weights else value, clock, (0.1,))).apply(state)
        if ends:
            (await channel.finish()).apply(state)
        else:
            assert await channel.drain(self.clock + len(values)) == ""

    def _take_over(self, rank: int, channel: Channel, state: ModelState) -> None:
        before, now, own = len(self.exported), len(self.channels), rank < len(self.exported)
        left = [self.exported[k][0] for k in range(now, before)] if rank == 0 else []
        residuals = [residual_left(channel, copy.deepcopy(each), LAYOUT.numel) for each in left]
        exported, weights = self.exported[rank if own else 0]
        channel.take_over(copy.deepcopy(exported), own)
        if not own:
            assert not any(residual.any() for _, residual in channel.states()), "a newcomer has nothing to send yet"
        for residual in residuals:
            before_it = [kept for _, kept in channel.states()]
            channel.inherit(residual)
            if before_it:
                after = torch.cat([kept for _, kept in channel.states()]).view(-1, LAYOUT.numel)
                assert torch.equal(after, torch.cat(before_it).view(-1, LAYOUT.numel) + residual)
        state.adopt(weights)

    def residual(self) -> Tensor:
        """What all workers keep back (numel,)."""
        kept = [torch.cat([residual for _, residual in states]) for channel in self.channels if (states := channel.states())]
        return sum(kept, torch.zeros(LAYOUT.numel))


def steps_of(seed: int) -> list[int]:
    return [int(steps) for steps in np.random.default_rng(seed).integers(1, 6, 3)]


def everything_counts_once(strategy: Strategy) -> None:
    for seed in range(4):
        first, second, third = steps_of(seed)
        crews = Crews(strategy, seed)
        crews.exchange(4, first)
        crews.exchange(3, second)
        crews.exchange(5, third, ends=True)
        for state in crews.states:
            assert torch.equal(crews.residual() - state.weights, crews.produced)


@pytest.mark.parametrize(("topology", "codec"), FITTING, ids=repr)
def test_after_four_workers_come_three_and_then_five_and_everything_counts_once(topology: Topology, codec: Codec) -> None:
    everything_counts_once(Strategy(topology=topology, codec=codec, merge=Sum()))


@pytest.mark.parametrize("codec", CODECS[:3], ids=repr)
@pytest.mark.parametrize("rule", SERVED, ids=repr)
@pytest.mark.parametrize("topology", [Server(2), AllToAll()], ids=repr)
def test_where_workers_do_not_wait_for_all_everything_counts_once(topology: Topology, rule: Consistency, codec: Codec) -> None:
    if topology == AllToAll() and rule == SERVED[3]:
        rule = Bounded(1)
    everything_counts_once(Strategy(consistency=LocalSteps(1, rule), topology=topology, codec=codec, merge=Sum()))


@pytest.mark.parametrize("topology", [Gossip(), Moshpit(), PushSum(), PushSum(overlap=2)], ids=repr)
def test_gossip_ends_with_one_mean_of_those_who_are_there(topology: Topology) -> None:
    for seed in range(4):
        crews = Crews(Strategy(consistency=LocalSteps(1), topology=topology), seed)
        crews.exchange(4, 3, weights=True)
        crews.exchange(3, 2, weights=True)
        crews.exchange(5, 3, ends=True, weights=True)
        assert all(torch.isfinite(state.weights).all() for state in crews.states)
        for state in crews.states:
            torch.testing.assert_close(state.weights, crews.states[0].weights)


def test_where_each_receiver_is_kept_something_else_each_gets_the_mean_of_what_the_worker_kept_that_has_left() -> None:
    crews = Crews(Strategy(topology=LinkExchange(), codec=ErrorFeedback(TopK(0.2)), merge=Mean()), 0)
    crews.exchange(4, 3)
    crews.exchange(3, 2)
    crews.exchange(5, 2, ends=True)
