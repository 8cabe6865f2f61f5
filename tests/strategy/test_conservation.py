"""What is applied, residual and under way is what was produced: at any pause, under any schedule."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from endpoints import context_of, server_end, worker_end
from schedules import Schedule
from torch import Tensor

from polyrhythm.codec import ErrorFeedback, Identity, Threshold, TopK
from polyrhythm.consistency import Asynchronous, Bounded, BulkSynchronous, Intervals, LocalSteps
from polyrhythm.kernel.names import server, worker
from polyrhythm.merge import Mean, Sum
from polyrhythm.model.state import ModelState
from polyrhythm.pieces.codec import packets
from polyrhythm.pieces.topology import InitialState, server_count
from polyrhythm.strategy import Strategy
from polyrhythm.tensors import Layout
from polyrhythm.topology import AllToAll, Server
from polyrhythm.topology.all_to_all import _NEWS
from polyrhythm.topology.server_requests import PUSH, REQUESTS
from polyrhythm.topology.server_shard import ServerShard

LAYOUT = Layout(("a", "b"), ((4, 3), (5,)))
CODECS = (Identity(), ErrorFeedback(TopK(0.2)), ErrorFeedback(Threshold(2.0)))
RULES = (BulkSynchronous(), Bounded(0), Bounded(2), Asynchronous())
SERVED = (*RULES, Intervals(), Intervals(push=2, fetch=3), Intervals(push=4))


async def _live(channel, model_state: ModelState, values: list[Tensor], produced: list[Tensor]) -> None:  # type: ignore[no-untyped-def]
    """A worker that says one whole-numbered value after another, so that every sum is exact."""
    (await channel.establish(InitialState(model_state, ""))).apply(model_state)
    for clock, value in enumerate(values, 1):
        produced.append(value)
        (await channel.exchange(value, clock, (0.1,))).apply(model_state)


async def _live_on(channel, model_state: ModelState, values: list[Tensor], produced: list[Tensor]) -> None:  # type: ignore[no-untyped-def]
    """As `_live`, to the end of the run."""
    await _live(channel, model_state, values, produced)
    (await channel.finish()).apply(model_state)


def shard_of(strategy: Strategy, shard: int, workers: int, schedule: Schedule) -> ServerShard:
    """A server of the schedule, not begun yet."""
    return ServerShard(strategy.agreement, server_end(schedule.port(server(shard)), workers, server_count(strategy.topology, workers)))


def _values(draw: np.random.Generator, steps: int) -> list[Tensor]:
    return [torch.from_numpy(draw.integers(-8, 9, LAYOUT.numel)).float() for _ in range(steps)]


@pytest.mark.parametrize("codec", CODECS, ids=repr)
@pytest.mark.parametrize("rule", SERVED, ids=repr)
def test_servers_conserve_at_any_pause_of_a_thousand_schedules(codec, rule) -> None:  # type: ignore[no-untyped-def]
    for seed in range(100):
        draw = np.random.default_rng(seed)
        workers, shards, steps = int(draw.integers(1, 5)), int(draw.integers(1, 4)), int(draw.integers(1, 6))
        strategy = Strategy(consistency=LocalSteps(1, rule), topology=Server(shards), codec=codec, merge=Sum())
        schedule, produced = Schedule(seed), []
        bodies = [shard_of(strategy, k, workers, schedule) for k in range(shards)]
        for k, shard in enumerate(bodies):
            schedule.start(server(k), shard.live())
        channels = []
        for rank in range(workers):
            model_state = ModelState(torch.zeros(LAYOUT.numel), LAYOUT, Sum(), context_of(workers), None)
            channels.append(
                strategy.topology.channel(
                    strategy.agreement, worker_end(schedule.port(worker(rank)), workers, server_count(strategy.topology, workers), seed)
                )
            )
            schedule.start(worker(rank), _live(channels[-1], model_state, _values(draw, steps), produced))
        schedule.run(until=int(draw.integers(20, 400)))
        if not all(shard.founded for shard in bodies):
            schedule.close()
            continue
        applied = torch.cat([-shard.model_state.weights for shard in bodies])
        residual = sum(
            (torch.cat([residual for _, residual in channel.states()]) for channel in channels if hasattr(channel.requests, "coded")),
            torch.zeros(17),
        )
        parts = LAYOUT.split(shards)
        coming = torch.cat([_pushes(strategy, schedule, shard, part) for shard, part in zip(bodies, parts, strict=True)])
        assert torch.equal(applied + residual + coming, sum(produced, torch.zeros(17)))
        schedule.close()


@pytest.mark.parametrize("codec", CODECS, ids=repr)
@pytest.mark.parametrize("rule", SERVED, ids=repr)
def test_at_the_end_servers_have_all_that_was_produced_and_workers_have_the_servers_weights(codec, rule) -> None:  # type: ignore[no-untyped-def]
    for seed in range(20):
        draw = np.random.default_rng(seed)
        workers, shards, steps = int(draw.integers(1, 5)), int(draw.integers(1, 4)), int(draw.integers(1, 6))
        strategy = Strategy(consistency=LocalSteps(1, rule), topology=Server(shards), codec=codec, merge=Sum())
        schedule, produced, holders, channels = Schedule(seed), [], [], []
        bodies = [shard_of(strategy, k, workers, schedule) for k in range(shards)]
        for k, shard in enumerate(bodies):
            schedule.start(server(k), shard.live())
        for rank in range(workers):
            holders.append(ModelState(torch.zeros(LAYOUT.numel), LAYOUT, Sum(), context_of(workers), None))
            channels.append(
                strategy.topology.channel(
                    strategy.agreement, worker_end(schedule.port(worker(rank)), workers, server_count(strategy.topology, workers), seed)
                )
            )
            schedule.start(worker(rank), _live_on(channels[-1], holders[-1], _values(draw, steps), produced))
        assert schedule.run()
        weights = torch.cat([shard.model_state.weights for shard in bodies])
        residual = sum((torch.cat([residual for _, residual in channel.states()]) for channel in channels), torch.zeros(17))
        assert torch.equal(residual - weights, sum(produced, torch.zeros(17)))
        assert all(torch.equal(model_state.weights, weights) for model_state in holders)
        assert not any(box for (actor, _), box in schedule.mail.items() if actor.startswith("worker/")), "an response that nobody took"
        schedule.close()


def _pushes(strategy: Strategy, schedule: Schedule, shard: ServerShard, part: Layout) -> Tensor:
    """What pushes to a shard say that are under way, in its mail, or waiting for their group."""
    name = shard.port.name
    messages = [m for (_, to), queue in schedule.under_way.items() if to == name for m in queue]
    messages += [d.message for d in schedule.mail[name, REQUESTS]] + [d.message for d in shard.pending]
    sent = [packets(strategy.codec).decode(m.tensors, part) for m in messages if m.numbers[0] == PUSH]
    return sum(sent, torch.zeros(part.numel))


@pytest.mark.parametrize("codec", CODECS, ids=repr)
@pytest.mark.parametrize("rule", RULES, ids=repr)
def test_peers_conserve_at_any_pause_of_a_thousand_schedules(codec, rule) -> None:  # type: ignore[no-untyped-def]
    for seed in range(100):
        draw = np.random.default_rng(seed)
        workers, steps = int(draw.choice([1, 2, 4])), int(draw.integers(1, 6))
        strategy = Strategy(consistency=LocalSteps(1, rule), topology=AllToAll(), codec=codec, merge=Mean())
        schedule, produced, holders, channels = Schedule(seed), [], [], []
        for rank in range(workers):
            holders.append(ModelState(torch.zeros(LAYOUT.numel), LAYOUT, Mean(), context_of(workers), None))
            channels.append(
                strategy.topology.channel(
                    strategy.agreement, worker_end(schedule.port(worker(rank)), workers, server_count(strategy.topology, workers), seed)
                )
            )
            schedule.start(worker(rank), _live(channels[-1], holders[-1], _values(draw, steps), produced))
        schedule.run(until=int(draw.integers(20, 400)))
        residual = sum((channel.states()[0][1] for channel in channels if hasattr(channel, "state")), torch.zeros(17))
        for rank, (model_state, channel) in enumerate(zip(holders, channels, strict=True)):
            name = worker(rank)
            messages = [m for (_, to), queue in schedule.under_way.items() if to == name for m in queue if m.topic == _NEWS]
            messages += [d.message for d in schedule.mail[name, _NEWS]]
            coming = sum((packets(strategy.codec).decode(m.tensors, LAYOUT) for m in messages), torch.zeros(17))
            pending = sum((item[2].value for item in channel.pending), torch.zeros(17))
            assert torch.equal(-model_state.weights * workers + residual + coming + pending, sum(produced, torch.zeros(17)))
        schedule.close()
