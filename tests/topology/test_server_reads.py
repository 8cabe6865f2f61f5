"""What workers read from servers: the servers' own weights, and none that they have already."""

from __future__ import annotations

import types
from collections.abc import Coroutine, Generator
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
import torch
from endpoints import context_of
from toy import SLOW, Toy, data, network, trained

from polyrhythm.consistency import Asynchronous, Bounded, LocalSteps, SoftSync
from polyrhythm.core import rng
from polyrhythm.core.kernel.effects import Effect, Send
from polyrhythm.core.kernel.events import Merged
from polyrhythm.core.kernel.message import Message
from polyrhythm.core.protocols.topology import Agreement, Channel, ServerEndpoint, WorkerEndpoint
from polyrhythm.core.simulator import Simulator
from polyrhythm.core.strategy import Strategy
from polyrhythm.core.training.run import run
from polyrhythm.hardware.devices import Profile
from polyrhythm.hardware.fleet import Fleet, Mixed
from polyrhythm.merge import Adagrad, Mean, Nesterov, OuterOptimizer, StalenessScaled, Sum
from polyrhythm.topology import Server
from polyrhythm.topology.servers.served_weights import AllWeights
from polyrhythm.topology.servers.server_shard import ServerShard

UNEVEN = Simulator(network=SLOW, devices=Fleet((Profile("measured", (0.02,)),), (Mixed((1.0, 0.6, 0.2)),)))
MOMENTUM = Toy(lambda parameters: torch.optim.SGD(parameters, lr=0.05, momentum=0.9), batch_size=4)


@dataclass(frozen=True)
class Watched:
    """One server whose `weights` of each version are seen, and whose responses are `sent`: (to, version, whether with weights)."""

    weights: list[torch.Tensor] = field(default_factory=list, compare=False)
    sent: list[tuple[str, int, bool]] = field(default_factory=list, compare=False)
    traits = Server.traits
    result = Server.result

    def workers(self, available: int) -> int:
        return available

    @property
    def service(self) -> Watched:
        return self

    def count(self, workers: int) -> int:
        return 1

    def channel(self, agreement: Agreement, endpoint: WorkerEndpoint) -> Channel:
        return Server(1).channel(agreement, endpoint)

    def serve(self, agreement: Agreement, endpoint: ServerEndpoint) -> Coroutine[Effect[Any], Any, None]:
        record = endpoint.record
        recording = replace(endpoint, record=lambda event: (record(event), self.weights.append(shard.model_state.weights.clone()))[0])
        shard = ServerShard(agreement, recording, AllWeights())
        return self._watch(shard.live())  # type: ignore[return-value]

    @types.coroutine
    def _watch(self, body: Coroutine[Effect[Any], Any, None]) -> Generator[Any, Any, None]:
        response = None
        while True:
            try:
                effect = body.send(response)
            except StopIteration:
                return
            if isinstance(effect, Send) and effect.message.topic == "w0":
                self._note(effect.to, effect.message)
            response = yield effect

    def _note(self, to: str, message: Message) -> None:
        self.sent.append((to, int(message.numbers[0]), bool(message.tensors)))


def weights_after_each_step(strategy: Strategy, toy: Toy) -> list[torch.Tensor]:
    """Of all three workers, whose speeds differ; only after steps at which they speak."""
    seen = []

    def train(worker: Any) -> None:
        model = network()
        model, optimizer = worker.attach(model, toy.make(model.parameters()))
        for _ in range(toy.epochs):
            for x, y in worker.batches(data(), batch_size=toy.batch_size):
                optimizer.zero_grad()
                torch.nn.functional.cross_entropy(model(x), y).backward()
                optimizer.step()
                if strategy.consistency.conditions.exchanges(context_of(3, clock=worker.clock)):
                    seen.append(torch.cat([p.detach().reshape(-1) for p in model.parameters()]))

    run(train, workers=3, strategy=strategy, on=UNEVEN, seed=5)
    return seen


@pytest.mark.parametrize(
    ("consistency", "merge"),
    [
        (Bounded(3), Mean()),
        (Bounded(3), OuterOptimizer(Adagrad(0.05))),
        (LocalSteps(2, Bounded(3)), OuterOptimizer(Nesterov())),
        (Asynchronous(), Mean()),
        (SoftSync(1), StalenessScaled()),
        (SoftSync(2), StalenessScaled()),
        (SoftSync(1, Bounded(40)), Mean()),
        (SoftSync(1, LocalSteps(2, Asynchronous())), Sum()),
    ],
    ids=repr,
)
def test_after_a_step_a_worker_has_weights_that_the_server_had(consistency: Any, merge: Any) -> None:
    """With momentum: a second optimizer that stepped at the worker between reads would have a momentum of its own."""
    server = Watched()
    for weights in weights_after_each_step(Strategy(consistency=consistency, topology=server, merge=merge), MOMENTUM):
        assert any(torch.equal(weights, version) for version in [_first(), *server.weights])


def _first() -> torch.Tensor:
    rng.seed_everything(5, "worker", 0)
    return torch.cat([p.detach().reshape(-1) for p in network().parameters()])


def test_sums_of_updates_are_read_no_more_often_than_the_bound_requires() -> None:
    server = Watched()
    trained(MOMENTUM, 3, Strategy(consistency=LocalSteps(1, Bounded(3)), topology=server), UNEVEN)
    responses = len(server.sent) - 2 * 3  # to who joined, and who is done
    assert responses < 3 * 16


@pytest.mark.parametrize("groups", [1, 2, 3])
def test_no_worker_is_sent_weights_of_a_version_that_it_has(groups: int) -> None:
    server = Watched()
    trained(MOMENTUM, 3, Strategy(consistency=SoftSync(groups), topology=server, merge=StalenessScaled()), UNEVEN)
    for rank in range(3):
        versions = [version for to, version, full in server.sent[:-3] if to == f"worker/{rank}" and full]
        assert versions == sorted(set(versions))
    assert all(full for *_, full in server.sent[-3:]), "at the end everybody gets the final weights"


def test_a_fast_learner_that_speaks_several_times_a_merge_fetches_each_version_once() -> None:
    server = Watched()
    devices = Fleet((Profile("measured", (0.1,)),), (Mixed((1.0, 0.05)),))
    strategy = Strategy(consistency=SoftSync(1), topology=server, merge=StalenessScaled())
    on = Simulator(network=SLOW, devices=devices)
    merges = [e for e in trained(Toy(batch_size=2), 2, strategy, on).outcome.events if isinstance(e, Merged)]
    by_worker = [sum(full for to, _, full in server.sent if to == f"worker/{rank}") for rank in range(2)]
    assert len(server.sent) == 2 * (48 + 2)
    assert max(by_worker) <= len(merges) + 2
    assert sum(full for *_, full in server.sent) < 0.8 * len(server.sent)
