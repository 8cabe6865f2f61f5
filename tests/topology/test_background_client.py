"""Pushes and fetches at intervals, in the background: a worker's side, which receives scripted messages, and in whole runs."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from endpoints import context_of, worker_end
from test_collapse import plain
from toy import Toy, trained, weights

from polyrhythm.consistency import Asynchronous, Intervals, LocalSteps, SoftSync
from polyrhythm.core.kernel.effects import Effect, Receive, Send
from polyrhythm.core.kernel.events import Merged, Stepped
from polyrhythm.core.kernel.message import Delivery, Message
from polyrhythm.core.kernel.names import server, worker
from polyrhythm.core.kernel.port import Port
from polyrhythm.core.processes import Processes
from polyrhythm.core.protocols.responses import Response
from polyrhythm.core.protocols.topology import Channel, InitialState
from polyrhythm.core.simulator import Instant, Simulator
from polyrhythm.core.strategy import Strategy
from polyrhythm.core.tensors import Layout
from polyrhythm.core.weights.state import ModelState
from polyrhythm.errors import CompositionError
from polyrhythm.hardware.devices import Profile
from polyrhythm.hardware.faults import Crash
from polyrhythm.hardware.fleet import Fleet
from polyrhythm.hardware.network import Network
from polyrhythm.merge import Elastic, Mean, Sum
from polyrhythm.topology import Server
from polyrhythm.topology.servers.server_records import Done, Fetch, JoinRequest, Push, ServerRequest, ShardStatus, Wanted, from_numbers

LAYOUT, RATE = Layout(("w",), ((4,),)), 0.5
FAR = Network.uniform("far", "10 Gbit/s", "2 s")
STEP = 0.01
MEASURED = Fleet((Profile("measured", (STEP,)),))


class World:
    """One worker that steps by plain SGD, and shards that response when the test says so."""

    def __init__(self, rule: Any, shards: int = 1) -> None:
        strategy = Strategy(consistency=rule, topology=Server(shards), merge=Sum())
        self.sent: list[tuple[int, ServerRequest, list[float]]] = []
        self.mail: dict[int, list[Message]] = {shard: [] for shard in range(shards)}
        self.gradient = torch.zeros(4)
        self.model_state = ModelState(torch.zeros(4), LAYOUT, Sum(), context_of(1), None, self._step)
        self.channel: Channel = strategy.topology.channel(strategy.agreement, worker_end(Port(worker(0), 0, lambda: 0.0), 1, shards))
        for shard in range(shards):
            self.response(shard, torch.zeros(4 // shards))
        self.clock = 0
        self._drive(self.channel.establish(InitialState(self.model_state, ""))).apply(self.model_state)
        assert [request for _, request, _ in self.sent] == [JoinRequest()] * shards
        self.sent.clear()

    def _step(self, scale: float) -> None:
        self.model_state.weights.sub_(scale * RATE * self.gradient)

    def response(self, shard: int, weights: torch.Tensor, version: int = 0) -> None:
        """Let weights arrive."""
        self.mail[shard].append(Message(f"w{shard}", ShardStatus(version, 0.0).to_numbers(), tensors=(weights,)))

    def step(self, gradient: float) -> list[float]:
        """One step on a gradient that is the same everywhere: the weights after it."""
        self.clock += 1
        self.gradient = torch.full((4,), gradient)
        self._drive(self.channel.exchange(self.gradient.clone(), self.clock, (RATE,))).apply(self.model_state)
        return self.model_state.weights.tolist()

    def finish(self) -> list[float]:
        """The end of the run."""
        self._drive(self.channel.finish()).apply(self.model_state)
        return self.model_state.weights.tolist()

    def _drive(self, talk: Any) -> Response:
        response: Any = None
        while True:
            try:
                effect: Effect[Any] = talk.send(response)
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]
            response = None
            if isinstance(effect, Send):
                shard, message = int(effect.to[-1]), effect.message
                self.sent.append((shard, from_numbers(message.numbers), [v for t in message.tensors for v in t[:1].tolist()]))
            elif isinstance(effect, Receive):
                box = self.mail[int(effect.sender[-1])]
                assert box or effect.timeout == 0, "it waits for an response that nobody has sent"
                response = Delivery(effect.sender, box.pop(0)) if box else None


def test_what_accrues_is_pushed_every_so_many_steps_and_weights_are_requested_at_intervals_of_their_own() -> None:
    world = World(Intervals(push=2, fetch=3))
    for gradient in (1.0, 2.0, 4.0, 8.0, 16.0, 32.0):
        world.step(gradient)
    assert world.sent == [
        (0, Push(2, 0, Wanted.NOTHING, (RATE,)), [3.0]),
        (0, Fetch(3, 0, Wanted.WEIGHTS), []),
        (0, Push(4, 0, Wanted.NOTHING, (RATE,)), [12.0]),
        (0, Push(6, 0, Wanted.NOTHING, (RATE,)), [48.0]),  # the fetch of step 3 is still under way, so there is no other
    ]


def test_a_worker_goes_on_with_its_own_steps_and_takes_weights_over_when_they_have_come() -> None:
    """Dean et al., 2012, algorithm 7.1: parameters ← parameters - α gradient, from the weights fetched last."""
    world = World(Intervals())
    assert world.step(1.0) == [-0.5] * 4
    assert world.step(2.0) == [-1.5] * 4
    world.response(0, torch.full((4,), 10.0), version=7)
    assert world.step(4.0) == [8.0] * 4
    assert world.step(1.0) == [7.5] * 4
    assert [(push.version, push.wanted) for _, push, _ in world.sent if isinstance(push, Push)] == [
        (0, Wanted.WEIGHTS),
        (0, Wanted.NOTHING),
        (7, Wanted.WEIGHTS),
        (7, Wanted.NOTHING),
    ]


def test_each_shard_is_queried_again_when_it_has_responded_whatever_the_others_do() -> None:
    world = World(Intervals(), shards=2)
    world.step(1.0)
    world.response(1, torch.full((2,), 10.0), version=3)
    assert world.step(1.0) == [-1.0, -1.0, 9.5, 9.5]
    assert [(shard, push.wanted) for shard, push, _ in world.sent if isinstance(push, Push)] == [
        (0, Wanted.WEIGHTS),
        (1, Wanted.WEIGHTS),
        (0, Wanted.NOTHING),
        (1, Wanted.WEIGHTS),
    ]


def test_the_end_pushes_what_has_accrued_and_drops_a_response_that_comes_too_late() -> None:
    world = World(Intervals(push=4))
    for gradient in (1.0, 2.0, 4.0, 8.0, 16.0):
        world.step(gradient)
    ((_, accrued),) = [(state, residual) for state, residual in world.channel.states()]
    assert accrued.tolist() == [16.0] * 4
    world.response(0, torch.full((4,), 10.0), version=1)
    world.response(0, torch.full((4,), 20.0), version=2)
    assert world.finish() == [20.0] * 4
    assert world.sent[-2:] == [(0, Push(5, 0, Wanted.NOTHING, (RATE,)), [16.0]), (0, Done(), [])]
    assert world.channel.states()[0][1].tolist() == [0.0] * 4


def test_an_end_without_anything_accrued_pushes_nothing() -> None:
    world = World(Intervals(push=2, fetch=50))
    world.step(1.0)
    world.step(1.0)
    world.response(0, torch.full((4,), 20.0), version=2)
    assert world.finish() == [20.0] * 4
    assert [type(request) for _, request, _ in world.sent] == [Push, Done]


def test_local_updates_go_on_from_weights_that_have_come_as_gradients_do() -> None:
    world = World(LocalSteps(1, Intervals()))
    world.model_state.set_anchor()
    for gradient, fresh, expected in ((1.0, None, -0.5), (2.0, None, -1.5), (4.0, 10.0, 8.0), (1.0, None, 7.5)):
        if fresh is not None:
            world.response(0, torch.full((4,), fresh), version=1)
        world.model_state.weights.sub_(RATE * gradient)
        world.clock += 1
        world._drive(world.channel.exchange(world.model_state.moved(), world.clock, (RATE,))).apply(world.model_state)
        assert world.model_state.weights.tolist() == [expected] * 4
    assert [sent for *_, sent in world.sent] == [[0.5], [1.0], [2.0], [0.5]]


@pytest.mark.parametrize("rule", [Intervals(), Intervals(push=3, fetch=2), LocalSteps(2, Intervals()), SoftSync(1, Intervals())], ids=repr)
def test_no_worker_waits_for_a_response_however_far_the_server_is(rule: Any) -> None:
    """A round trip takes four seconds: who waits for one at every step, as under Asynchronous, takes 96 of them."""
    run = trained(Toy(batch_size=4), 2, Strategy(consistency=rule, topology=Server(2)), Simulator(network=FAR, devices=MEASURED))
    for rank in range(2):
        times = [event.time for event in run.outcome.events if isinstance(event, Stepped) and event.actor == worker(rank)]
        assert times[-1] - times[0] < len(times) * STEP * 1.5
    assert (run.summary.virtual_seconds or 0) < 3 * 4.2  # joining, the last words, and no more


def test_one_worker_near_its_server_is_the_plain_loop_to_rounding() -> None:
    """What it fetches is what its own steps have made of the weights already."""
    near = Simulator(network=Instant(), devices=MEASURED)
    strategy = Strategy(consistency=Intervals(), topology=Server(2), merge=Mean())
    torch.testing.assert_close(weights(Toy(), 1, strategy, near), plain(Toy()), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("push", "fetch"), [(1, 1), (3, 2), (5, 7)])
@pytest.mark.parametrize("on", [Processes(), Simulator(network=FAR, devices=MEASURED)], ids=["processes", "simulator"])
def test_every_gradient_reaches_the_server_in_both_runtimes(on: Any, push: int, fetch: int) -> None:
    """24 steps each in groups of `push`, and what is left at the end."""
    run = trained(Toy(batch_size=4), 2, Strategy(consistency=Intervals(push, fetch), topology=Server()), on)
    merged = [event for event in run.outcome.events if isinstance(event, Merged) and event.actor == server(0)]
    assert len(merged) == 2 * -(-24 // push)
    assert run.summary.samples == 192


@pytest.mark.parametrize(("tau", "push", "pushes"), [(1, 3, 8), (5, 3, 5), (5, 4, 5), (4, 6, 4), (7, 5, 4), (2, 8, 3), (7, 100, 1)])
def test_local_steps_push_what_is_due_at_their_next_exchange(tau: int, push: int, pushes: int) -> None:
    """24 steps each; what is left is pushed at the end."""
    strategy = Strategy(consistency=LocalSteps(tau, Intervals(push)), topology=Server())
    run = trained(Toy(batch_size=4), 2, strategy, Simulator(network=FAR, devices=MEASURED))
    assert sum(isinstance(event, Merged) and event.actor == server(0) for event in run.outcome.events) == 2 * pushes


@pytest.mark.parametrize("moment", [2.0, 4.01, 4.05, 4.1, 6.0])
def test_a_worker_that_is_lost_while_its_fetch_is_under_way_delays_no_other(moment: float) -> None:
    on = Simulator(network=FAR, devices=MEASURED, faults=(Crash("worker/1", at=moment),))
    summary = trained(Toy(batch_size=4), 3, Strategy(consistency=Intervals(2, 3), topology=Server(2)), on).summary
    assert summary.steps == 16
    assert summary.lost == ["worker/1"]


def test_weights_of_two_that_mix_cannot_be_fetched_in_the_background() -> None:
    with pytest.raises(CompositionError, match="a worker may continue before the server has mixed"):
        Strategy(consistency=LocalSteps(2, Intervals()), topology=Server(), merge=Elastic())
    assert Strategy(consistency=LocalSteps(2, Asynchronous()), topology=Server(), merge=Elastic())
