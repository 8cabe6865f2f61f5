"""What is applied, residual and under way is what was produced: for every channel, at any pause, under any schedule."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from endpoints import context_of, server_end, worker_end
from schedules import Schedule
from torch import Tensor

from polyrhythm.codec import ErrorFeedback, Identity, MaxN, Ranges, Relative, Striped, Threshold, TopK
from polyrhythm.consistency import Asynchronous, Bounded, BulkSynchronous, Intervals, LocalSteps
from polyrhythm.core.kernel.message import Message
from polyrhythm.core.kernel.names import server, worker
from polyrhythm.core.protocols.capability import Capability
from polyrhythm.core.protocols.codec import Codec, packets
from polyrhythm.core.protocols.consistency import Consistency
from polyrhythm.core.protocols.topology import Channel, InitialState, Topology, server_count
from polyrhythm.core.protocols.traits import Payload
from polyrhythm.core.strategy import Strategy
from polyrhythm.core.tensors import Layout
from polyrhythm.core.weights.state import ModelState
from polyrhythm.merge import Mean, Sum
from polyrhythm.topology import GRAPHS, MEMBERS, AllReduce, AllToAll, Delayed, Gossip, LinkExchange, PartialExchange, Server
from polyrhythm.topology.graphs.graph import Graph
from polyrhythm.topology.peers.peer_inbox import UPDATES
from polyrhythm.topology.servers.server_records import REQUESTS, Push, from_numbers
from polyrhythm.topology.servers.server_shard import ServerShard

LAYOUT = Layout(("a", "b"), ((4, 3), (5,)))
CODECS = (Identity(), ErrorFeedback(TopK(0.2)), ErrorFeedback(Threshold(2.0)), ErrorFeedback(Relative(0.5, floor=4.0)))
AGGREGATED = (*CODECS, Striped(ErrorFeedback(TopK(0.2))))
RULES = (BulkSynchronous(), Bounded(0), Bounded(2), Asynchronous())
FITTING = [
    (topology, codec)
    for topology in MEMBERS
    for codec in AGGREGATED
    if Payload.GRADIENT in topology.traits.payloads and topology.traits.provides >= codec.traits.requires | {Capability.SUMS}
    if not topology.traits.replicas_differ
]
PARTIAL = (*CODECS, Ranges(3), Ranges(20), ErrorFeedback(MaxN(20)))
SERVED = (*RULES, Intervals(), Intervals(push=2, fetch=3), Intervals(push=4))


class Crew:
    """The channels of some workers, and the shards of their servers, in a seeded schedule.

    Every worker exchanges one whole-numbered value after another, so that every sum is exact; `produced` is their sum.
    """

    def __init__(self, strategy: Strategy, workers: int, seed: int) -> None:
        self.strategy = strategy
        self.schedule = Schedule(seed)
        self.workers = workers
        self.produced = torch.zeros(LAYOUT.numel)
        count = server_count(strategy.topology, workers)
        ends = [server_end(self.schedule.port(server(k)), workers, count) for k in range(count)]
        served = isinstance(strategy.topology, Server)
        self.shards = [ServerShard(strategy.agreement, end, strategy.topology.responses) for end in ends] if served else []
        self.states = [ModelState(torch.zeros(LAYOUT.numel), LAYOUT, strategy.merge, context_of(workers), None) for _ in range(workers)]
        ports = [self.schedule.port(worker(rank)) for rank in range(workers)]
        self.channels = [strategy.topology.channel(strategy.agreement, worker_end(port, workers, count, seed)) for port in ports]
        service = strategy.topology.service
        for k, end in enumerate(ends):
            assert service is not None
            self.schedule.start(server(k), self.shards[k].live() if served else service.serve(strategy.agreement, end))

    def start(self, values: Sequence[Sequence[Tensor]], ends: bool, weights: bool = False) -> None:
        """Let worker k exchange `values[k]`, or its `weights` with each value added to them, and finish if the run `ends`."""
        for rank, (channel, state) in enumerate(zip(self.channels, self.states, strict=True)):
            self.schedule.start(worker(rank), self._live(channel, state, values[rank], ends, weights))

    async def _live(self, channel: Channel, state: ModelState, values: Sequence[Tensor], ends: bool, weights: bool) -> None:
        (await channel.establish(InitialState(state, ""))).apply(state)
        for clock, value in enumerate(values, 1):
            self.produced = self.produced + value
            if weights:
                state.adopt(state.weights + value)
            (await channel.exchange(state.weights if weights else value, clock, (0.1,))).apply(state)
        if ends:
            (await channel.finish()).apply(state)

    def residual(self) -> Tensor:
        """What all channels keep back (numel,); before they are established, nothing."""
        kept = [torch.cat([residual for _, residual in states]) for channel in self.channels if (states := channel.states())]
        return sum(kept, torch.zeros(LAYOUT.numel))

    def messages(self, name: str, topic: str) -> list[Message]:
        """What is under way to an actor, or in its mail."""
        under_way = [m for (_, to), queue in self.schedule.under_way.items() if to == name for m in queue if m.topic == topic]
        return under_way + [delivery.message for delivery in self.schedule.mail[name, topic]]

    def pushed(self, shard: ServerShard, part: Layout) -> Tensor:
        """What pushes to a shard hold that are under way, in its mail, or waiting for their group."""
        decode = packets(self.strategy.codec).decode
        pushes = [m.tensors for m in self.messages(shard.port.name, REQUESTS) if isinstance(from_numbers(m.numbers), Push)]
        pushes += [pending.packet for pending in shard.pending]
        return sum((decode(packet, part) for packet in pushes), torch.zeros(part.numel))


def drawn(seed: int) -> tuple[np.random.Generator, int, int]:
    """A stream, and a number of workers and of steps."""
    draw = np.random.default_rng(seed)
    return draw, int(draw.integers(1, 5)), int(draw.integers(1, 6))


def values(draw: np.random.Generator, workers: int, steps: int) -> list[list[Tensor]]:
    return [[torch.from_numpy(draw.integers(-8, 9, LAYOUT.numel)).float() for _ in range(steps)] for _ in range(workers)]


@pytest.mark.parametrize(("topology", "codec"), FITTING, ids=repr)
def test_at_the_end_every_channel_has_applied_or_kept_all_that_was_produced(topology: Topology, codec: Codec) -> None:
    for seed in range(10):
        draw, workers, steps = drawn(seed)
        crew = Crew(Strategy(topology=topology, codec=codec, merge=Sum()), topology.workers(workers), seed)
        crew.start(values(draw, crew.workers, steps), ends=True)
        assert crew.schedule.run()
        for state in crew.states:
            assert torch.equal(crew.residual() - state.weights, crew.produced)
        crew.schedule.close()


@pytest.mark.parametrize("codec", PARTIAL, ids=repr)
@pytest.mark.parametrize("topology", [PartialExchange(), LinkExchange()], ids=repr)
@pytest.mark.parametrize("rule", [BulkSynchronous(), Asynchronous()], ids=repr)
def test_a_worker_has_its_own_whole_and_of_others_all_but_what_they_keep_for_it(
    topology: Topology, codec: Codec, rule: Consistency
) -> None:
    for seed in range(10):
        draw, workers, steps = drawn(seed)
        crew = Crew(Strategy(consistency=rule, topology=topology, codec=codec, merge=Sum()), workers, seed)
        given = values(draw, workers, steps)
        crew.start(given, ends=True)
        assert crew.schedule.run()
        made = [torch.stack(each).sum(0) for each in given]
        for rank, state in enumerate(crew.states):
            others = [other for other in range(workers) if other != rank]
            kept = sum((kept_for(crew.channels[other], worker(rank)) for other in others), torch.zeros(LAYOUT.numel))
            assert torch.equal(-state.weights + kept, sum(made, torch.zeros(LAYOUT.numel)))
        crew.schedule.close()


def kept_for(channel: Channel, receiver: str) -> Tensor:
    """What a worker was given and has not sent to `receiver`."""
    states = dict(zip(channel.inbox.peers, channel.states(), strict=False))  # type: ignore[attr-defined]
    return (states[receiver] if len(channel.states()) > 1 else channel.states()[0])[1]


async def late(channel: Channel, state: ModelState, values: Sequence[Tensor]) -> None:
    """A worker that sends an update after every fourth step, and takes over what comes of it when it is due."""
    (await channel.establish(InitialState(state, ""))).apply(state)
    for number, value in enumerate(values, 1):
        (await channel.exchange(value, 4 * number, (0.1,))).apply(state)
        for clock in range(4 * number, 4 * number + 4):
            if channel.offers.late is not None and channel.offers.late.due(clock):
                (await channel.offers.late.collect()).apply(state)
    (await channel.finish()).apply(state)


@pytest.mark.parametrize("codec", AGGREGATED, ids=repr)
@pytest.mark.parametrize("delay", [0, 1, 3])
def test_late_sums_of_updates_are_applied_in_whole_rounds_at_any_pause_and_lose_nothing(delay: int, codec: Codec) -> None:
    for seed in range(10):
        draw, workers, steps = drawn(seed)
        crew = Crew(Strategy(consistency=LocalSteps(4), topology=Delayed(AllReduce(), delay), codec=codec, merge=Sum()), workers, seed)
        given = values(draw, workers, steps)
        for rank, (channel, state) in enumerate(zip(crew.channels, crew.states, strict=True)):
            crew.schedule.start(worker(rank), late(channel, state, given[rank]))
        crew.schedule.run(until=int(draw.integers(1, 200)))
        if codec == Identity():
            rounds = torch.stack([torch.stack(each) for each in given]).sum(0)
            whole = [torch.zeros(LAYOUT.numel), *rounds.cumsum(0)]
            assert all(any(torch.equal(-state.weights, total) for total in whole) for state in crew.states)
        assert crew.schedule.run()
        for state in crew.states:
            assert torch.equal(crew.residual() - state.weights, torch.stack([torch.stack(each) for each in given]).sum((0, 1)))
        crew.schedule.close()


@pytest.mark.parametrize("graph", GRAPHS, ids=repr)
def test_gossip_keeps_the_mean_of_what_was_produced_and_keeps_nothing_back(graph: Graph) -> None:
    for seed in range(10):
        draw, workers, steps = drawn(seed)
        crew = Crew(Strategy(consistency=LocalSteps(1), topology=Gossip(graph)), workers, seed)
        crew.start(values(draw, workers, steps), ends=True, weights=True)
        assert crew.schedule.run()
        assert not crew.residual().any()
        for state in crew.states:
            torch.testing.assert_close(state.weights, crew.produced / workers)
        crew.schedule.close()


@pytest.mark.parametrize("codec", CODECS, ids=repr)
@pytest.mark.parametrize("rule", SERVED, ids=repr)
def test_servers_conserve_at_any_pause_of_a_thousand_schedules(codec: Codec, rule: Consistency) -> None:
    for seed in range(100):
        draw, workers, steps = drawn(seed)
        topology = Server(int(draw.integers(1, 4)))
        crew = Crew(Strategy(consistency=LocalSteps(1, rule), topology=topology, codec=codec, merge=Sum()), workers, seed)
        crew.start(values(draw, workers, steps), ends=False)
        crew.schedule.run(until=int(draw.integers(20, 400)))
        if all(shard.initialized for shard in crew.shards):
            applied = torch.cat([-shard.model_state.weights for shard in crew.shards])
            parts = LAYOUT.split(topology.shards)
            coming = torch.cat([crew.pushed(shard, part) for shard, part in zip(crew.shards, parts, strict=True)])
            assert torch.equal(applied + crew.residual() + coming, crew.produced)
        crew.schedule.close()


@pytest.mark.parametrize("codec", CODECS, ids=repr)
@pytest.mark.parametrize("rule", SERVED, ids=repr)
def test_at_the_end_servers_have_all_that_was_produced_and_workers_have_the_servers_weights(codec: Codec, rule: Consistency) -> None:
    for seed in range(20):
        draw, workers, steps = drawn(seed)
        topology = Server(int(draw.integers(1, 4)))
        crew = Crew(Strategy(consistency=LocalSteps(1, rule), topology=topology, codec=codec, merge=Sum()), workers, seed)
        crew.start(values(draw, workers, steps), ends=True)
        assert crew.schedule.run()
        weights = torch.cat([shard.model_state.weights for shard in crew.shards])
        assert torch.equal(crew.residual() - weights, crew.produced)
        assert all(torch.equal(state.weights, weights) for state in crew.states)
        assert not any(box for (actor, _), box in crew.schedule.mail.items() if actor.startswith("worker/")), "a response that nobody took"
        crew.schedule.close()


@pytest.mark.parametrize("codec", CODECS, ids=repr)
@pytest.mark.parametrize("rule", RULES, ids=repr)
def test_peers_conserve_at_any_pause_of_a_thousand_schedules(codec: Codec, rule: Consistency) -> None:
    for seed in range(100):
        draw = np.random.default_rng(seed)
        workers, steps = int(draw.choice([1, 2, 4])), int(draw.integers(1, 6))
        crew = Crew(Strategy(consistency=LocalSteps(1, rule), topology=AllToAll(), codec=codec, merge=Mean()), workers, seed)
        crew.start(values(draw, workers, steps), ends=False)
        crew.schedule.run(until=int(draw.integers(20, 400)))
        for rank, (state, channel) in enumerate(zip(crew.states, crew.channels, strict=True)):
            messages = crew.messages(worker(rank), UPDATES)
            coming = sum((packets(codec).decode(message.tensors, LAYOUT) for message in messages), torch.zeros(LAYOUT.numel))
            pending = sum((item[2].value for item in channel.inbox.pending), torch.zeros(LAYOUT.numel))  # type: ignore[attr-defined]
            assert torch.equal(-state.weights * workers + crew.residual() + coming + pending, crew.produced)
        crew.schedule.close()
