"""What a shard does with contributions that come late, or too few."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from endpoints import context_of, server_end
from test_conservation import LAYOUT as CREWS
from test_conservation import Crew
from torch import Tensor
from toy import Toy, trained

from polyrhythm import systems
from polyrhythm.consistency import Bounded, SoftSync
from polyrhythm.core.kernel.effects import Send
from polyrhythm.core.kernel.events import Merged
from polyrhythm.core.kernel.message import Delivery, Message
from polyrhythm.core.kernel.names import server, worker
from polyrhythm.core.kernel.port import Port
from polyrhythm.core.strategy import Strategy
from polyrhythm.core.tensors import Layout
from polyrhythm.core.weights.state import ModelState
from polyrhythm.merge import StalenessScaled, Sum
from polyrhythm.topology import Server
from polyrhythm.topology.servers.served_weights import AllWeights
from polyrhythm.topology.servers.server_records import REQUESTS, Done, Push, ServerRequest, Wanted, to_numbers
from polyrhythm.topology.servers.server_shard import ServerShard

LAYOUT = Layout(("w",), ((2,),))


def shard_of(strategy: Strategy, workers: int) -> ServerShard:
    """A shard that has its weights."""
    shard = ServerShard(strategy.agreement, server_end(Port(server(0), 0, lambda: 0.0), workers), AllWeights())
    shard.model_state = ModelState(torch.zeros(2), LAYOUT, strategy.merge, context_of(workers), None)
    shard.log = AllWeights().log(shard.model_state.weights, LAYOUT)
    shard.initialized = True
    return shard


def deliver(shard: ServerShard, rank: int, request: ServerRequest, value: Tensor | None = None) -> list[str]:
    """Deliver a worker's request: to whom the shard responds."""
    tensors = () if value is None else (value,)
    taking, responses = shard._take(Delivery(worker(rank), Message(REQUESTS, to_numbers(request), tensors=tensors))), []
    while True:
        try:
            effect = taking.send(None)
        except StopIteration:
            return responses
        if isinstance(effect, Send):
            responses.append(effect.to)


def test_who_is_done_delays_no_other_when_its_last_words_are_merged_afterwards() -> None:
    shard = shard_of(Strategy(consistency=SoftSync(1, Bounded(1)), topology=Server(), merge=Sum()), 2)
    assert deliver(shard, 1, Push(1, 0, Wanted.NOTHING, ()), torch.ones(2)) == []
    deliver(shard, 1, Done())
    for clock in range(1, 10):
        deliver(shard, 0, Push(clock, 0, Wanted.NEWER, ()), torch.ones(2))
    assert shard.clocks.merged == {worker(0): 9.0, worker(1): float("inf")}
    assert shard.clocks.waiting == {}


def test_a_last_group_that_stays_short_is_merged_when_all_are_done() -> None:
    for workers, groups in ((5, 2), (3, 1), (4, 1)):
        events = trained(Toy(epochs=1, batch_size=4), workers, systems.find("softsync", groups=groups)).outcome.events
        merged = sum(len(event.staleness) for event in events if isinstance(event, Merged))
        assert merged == workers * -(-96 // (4 * workers))


def test_staleness_is_divided_by_and_counted_in_merges_since_the_weights_were_read() -> None:
    shard = shard_of(Strategy(consistency=SoftSync(2), topology=Server(), merge=StalenessScaled()), 4)
    shard.model_state.optimize = None
    for rank, read in enumerate((0, 0, 0, 1, 0, 2)):  # groups of two: the last meets version 2 with weights of version 0 and 2
        deliver(shard, rank % 4, Push(1, read, Wanted.NEWER, (0.1,)), torch.ones(2))
    # (1 + 1) / 2 + (1/1 + 1) / 2 + (1/2 + 1) / 2
    torch.testing.assert_close(shard.model_state.weights, torch.full((2,), -2.75))


@pytest.mark.parametrize("seed", range(12))
def test_a_group_that_no_worker_can_complete_is_merged_as_it_is(seed: int) -> None:
    """Workers take unequally many steps: the others wait for the slowest, whose contributions are too few for a group."""
    draw = np.random.default_rng(seed)
    workers, slack, shards = int(draw.integers(3, 6)), int(draw.integers(1, 3)), int(draw.integers(1, 3))
    crew = Crew(Strategy(consistency=SoftSync(1, Bounded(slack)), topology=Server(shards), merge=Sum()), workers, seed)
    crew.start([[torch.ones(CREWS.numel)] * int(draw.integers(1, 9)) for _ in range(workers)], ends=True)
    crew.schedule.run()
    assert all(task.done for task in crew.schedule.tasks if task.actor.startswith("worker/"))
    assert torch.equal(-torch.cat([shard.model_state.weights for shard in crew.shards]), crew.produced)
    crew.schedule.close()
