"""What published systems need of the protocols, each shown by pieces that are not part of the package."""

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F
from toy import SAMPLES, SLOW, Toy, data, network, trained, weights

from polyrhythm.consistency import Asynchronous, BulkSynchronous, LocalSteps
from polyrhythm.core.collectives.broadcast import broadcast
from polyrhythm.core.kernel.group import Group
from polyrhythm.core.kernel.message import Message
from polyrhythm.core.kernel.port import Port
from polyrhythm.core.processes import Processes
from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.protocols.controller import ControlledSetting, Controls
from polyrhythm.core.protocols.deals import Deals, PassDeals
from polyrhythm.core.protocols.merge import AnyContribution, Direction
from polyrhythm.core.protocols.offers import NOTHING
from polyrhythm.core.protocols.responses import AdoptWeights, ApplyContributions, MixWeights, Response
from polyrhythm.core.protocols.result_source import FirstWorker
from polyrhythm.core.protocols.shuffle import Batch, Feed, Follow, Order, Perform, SampleStream, Source, unfollowed
from polyrhythm.core.protocols.topology import Agreement, Channel, InitialState, WorkerEndpoint
from polyrhythm.core.protocols.traits import (
    DIFFERENCES,
    MergeTraits,
    Payload,
    TopologyTraits,
)
from polyrhythm.core.simulator.simulator import Simulator
from polyrhythm.core.strategy import Exchange, Hierarchical, Strategy
from polyrhythm.core.tensors import State
from polyrhythm.core.training.run import run
from polyrhythm.core.trees import StateTree
from polyrhythm.errors import CompositionError
from polyrhythm.local_rules import Proximal, ResetMoments
from polyrhythm.merge import Mean
from polyrhythm.topology import Server
from polyrhythm.topology.families import PEERS
from polyrhythm.topology.graphs.graph import Dissemination

SGD = Toy(lambda parameters: torch.optim.SGD(parameters, lr=0.05))
MOMENTUM = Toy(lambda parameters: torch.optim.SGD(parameters, lr=0.05, momentum=0.9))


# A contribution knows its sender and clock, and a merge may have a state: DynSGD, ConSGD


@dataclass(frozen=True)
class ByVersions:
    """DynSGD (Jiang et al., 2017): a push counts 1 / n, if n - 1 others came since the same sender's last one."""

    traits: ClassVar = MergeTraits(DIFFERENCES)
    rule: ClassVar[None] = None

    seen: list[tuple[str, int, float]] = field(default_factory=list, compare=False)

    def combine(self, contributions: Sequence[AnyContribution], context: ExchangeContext) -> Direction:
        """Every contribution by itself, as the server merges them."""
        [each] = contributions
        merged = int(context.state.get("merged", torch.zeros(())).item())
        last = int(context.state.get(each.sender, torch.zeros(())).item())
        weight = 1 / max(1, merged - last)
        self.seen.append((each.sender, each.clock, weight))
        state = {**context.state, "merged": torch.tensor(merged + 1), each.sender: torch.tensor(merged + 1)}
        return Direction(each.value * weight, weight, 1.0, state)


def test_a_merge_weighs_contributions_by_what_came_since_their_senders_last_one() -> None:
    merge = ByVersions()
    trained(SGD, 3, Strategy(consistency=Asynchronous(), topology=Server(), merge=merge), on=Simulator(network=SLOW))
    assert {sender for sender, _, _ in merge.seen} == {"worker/0", "worker/1", "worker/2"}
    for name in ("worker/0", "worker/1", "worker/2"):
        assert [clock for sender, clock, _ in merge.seen if sender == name] == list(range(1, 9))
    assert {weight for _, clock, weight in merge.seen if clock > 1} <= {1.0, 1 / 2, 1 / 3, 1 / 4}


# A merge sees the layout: Adasum layer by layer


@dataclass(frozen=True)
class AdasumByLayer:
    """Maleki et al., 2021: each layer's gradients are added with what they have in common taken out of one another."""

    traits: ClassVar = MergeTraits(frozenset({Payload.GRADIENT}))
    rule: ClassVar[None] = None

    def combine(self, contributions: Sequence[AnyContribution], context: ExchangeContext) -> Direction:
        """Pairwise, in order."""
        total = contributions[0].value.clone()
        for other in contributions[1:]:
            for a, b in zip(context.layout.views(total), context.layout.views(other.value), strict=True):
                dot, aa, bb = (a * b).sum(), (a * a).sum().clamp_min(1e-30), (b * b).sum().clamp_min(1e-30)
                a.copy_((1 - dot / (2 * aa)) * a + (1 - dot / (2 * bb)) * b)
        return Direction(total, 1.0, 1.0)


def test_a_merge_combines_gradients_layer_by_layer() -> None:
    """Of equal gradients Adasum makes one of them: a step of three workers with the same data is that of one."""
    same = Toy(lambda parameters: torch.optim.SGD(parameters, lr=0.05), epochs=1, batch_size=SAMPLES)
    everything = Strategy(topology=Server(), merge=AdasumByLayer(), shuffle=Everything())
    torch.testing.assert_close(weights(same, 3, everything), weights(same, 1, "single"), rtol=0, atol=1e-6)


@dataclass(frozen=True)
class Everything:
    """Every worker sees all samples in each batch."""

    sends: ClassVar = False
    weighs: ClassVar = False
    takes: ClassVar = frozenset[ControlledSetting]()

    def feed(self, deals: Deals, port: Port, perform: Perform, controls: Controls, follow: Follow = unfollowed) -> Feed:
        """The same for all."""
        return _Whole()

    def stream(self, stream: SampleStream, group: Group, number: int, batch_size: int) -> Iterator[Batch]:
        """Not needed here."""
        raise AssertionError

    def share(self, order: Order, group: Group, number: int) -> Sequence[int]:
        """All."""
        return order.indices(group.seed, number)


class _Whole:
    def count(self, source: Source, batch_size: int) -> int:
        return 1

    def epoch(self, source: Source, deals: PassDeals, batch_size: int, first: int = 0) -> Iterator[Batch]:
        yield from source.load([list(range(SAMPLES))], 0)

    def skip(self, source: Source, number: int, batch_size: int, batches: int) -> None:
        return None


# Neighbours without waiting: AD-PSGD; a mix that sees one's own step and may refuse: Keuper


@dataclass(frozen=True)
class SendAndMix:
    """Weights go to the neighbours that a graph names; each mixes what has come when it next looks, and waits for nobody."""

    traits: ClassVar = TopologyTraits(frozenset({Payload.WEIGHTS}), "with neighbours, without waiting", PEERS, replicas_differ=True)
    service: ClassVar[None] = None
    result: ClassVar = FirstWorker()

    def workers(self, available: int) -> int:
        """All."""
        return available

    def channel(self, agreement: Agreement, endpoint: WorkerEndpoint) -> Channel:
        """A worker's side."""
        return _Mailbox(endpoint)


class _Mailbox:
    offers = NOTHING

    def __init__(self, endpoint: WorkerEndpoint) -> None:
        self.group, self.port, self.rounds = endpoint.group, endpoint.port, 0

    async def establish(self, initial: InitialState) -> Response:
        return AdoptWeights(await broadcast(self.port, self.group, initial.weights(), "init"))

    async def exchange(self, value: Tensor, clock: int, rates: tuple[float, ...]) -> Response:
        receivers, _ = Dissemination().neighbours(self.rounds, self.group)
        self.rounds += 1
        for rank in receivers:
            await self.port.send(self.group.members[rank], Message("weights", tensors=(value.clone(),)))
        came = []
        while (delivery := await self.port.receive("weights", timeout=0.0)) is not None:
            came.append(delivery.message.tensors[0])
        return MixWeights(came) if came else ApplyContributions([])

    async def finish(self) -> Response:
        return ApplyContributions([])

    async def drain(self, step: int) -> str:
        return ""

    def export(self) -> StateTree:
        return self.rounds

    def restore(self, state: StateTree) -> None:
        self.rounds = state

    def states(self) -> list[tuple[State, Tensor]]:
        return []


@dataclass(frozen=True)
class ParzenGate:
    """Keuper & Pfreundt, 2015: mix in what lies in the direction of one's own step, and refuse the rest."""

    traits: ClassVar = MergeTraits(frozenset({Payload.WEIGHTS}), sees_moved=True)

    decisions: list[bool] = field(default_factory=list, compare=False)

    def mix(self, mine: Tensor, theirs: Sequence[Tensor], context: ExchangeContext) -> Tensor:
        """The mean with each that is nearer to where the step went than to where it came from."""
        before = mine + context.moved
        for other in theirs:
            accepted = bool((mine - other).norm() < (before - other).norm())
            self.decisions.append(accepted)
            if accepted:
                mine = (mine + other) / 2
        return mine.clone()


def test_neighbours_mix_what_has_come_and_wait_for_no_other() -> None:
    spread = Strategy(consistency=LocalSteps(1, Asynchronous()), topology=SendAndMix(), merge=Mean())
    for on in (Simulator(network=SLOW), Processes()):
        assert trained(SGD, 4, spread, on=on).final["loss"] < 1.2


def test_a_mix_sees_ones_own_step_and_may_refuse() -> None:
    merge = ParzenGate()
    trained(SGD, 4, Strategy(consistency=LocalSteps(1, Asynchronous()), topology=SendAndMix(), merge=merge), on=Simulator(network=SLOW))
    assert {True, False} == set(merge.decisions)


# A hook before the local step: FedProx; the state of the inner optimizer: SparkNet, SlowMo


def by_hand(mu: float, tau: int, steps: int) -> Tensor:
    """One worker's plain loop with a proximal term."""
    from polyrhythm.core import rng

    seen: list[Any] = []

    def watch(worker: Any) -> None:
        batches = worker.batches
        worker.batches = lambda *given, **named: (seen.append(batch) or batch for batch in batches(*given, **named))
        SGD(worker)

    run(watch, workers=1, strategy="single", on=Simulator(), seed=5)
    rng.seed_everything(5, "worker", 0)
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    anchor = [parameter.detach().clone() for parameter in model.parameters()]
    for step, (x, y) in enumerate(seen, 1):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        for parameter, start in zip(model.parameters(), anchor, strict=True):
            assert parameter.grad is not None
            parameter.grad += mu * (parameter.detach() - start)
        optimizer.step()
        if step % tau == 0:
            anchor = [parameter.detach().clone() for parameter in model.parameters()]
    return torch.cat([parameter.detach().view(-1) for parameter in model.parameters()])


def test_a_proximal_term_pulls_back_to_the_last_exchange() -> None:
    prox = Strategy(consistency=LocalSteps(4), local=Proximal(0.5))
    torch.testing.assert_close(weights(SGD, 1, prox), by_hand(0.5, 4, 24), rtol=0, atol=1e-6)
    none = Strategy(consistency=LocalSteps(4), local=Proximal(0.0))
    assert torch.equal(weights(SGD, 3, none), weights(SGD, 3, Strategy(consistency=LocalSteps(4))))


def test_the_inner_optimizer_begins_anew_after_each_exchange() -> None:
    every = Strategy(consistency=LocalSteps(1), local=ResetMoments())
    plain = Strategy(consistency=LocalSteps(1))
    torch.testing.assert_close(weights(MOMENTUM, 3, every), weights(SGD, 3, plain), rtol=0, atol=1e-6)
    assert not torch.equal(weights(MOMENTUM, 3, plain), weights(MOMENTUM, 3, every))


@pytest.mark.parametrize("kind", [torch.optim.NAdam, torch.optim.Rprop, torch.optim.Adagrad, torch.optim.ASGD])
def test_an_optimizer_that_begins_anew_is_as_a_new_one(kind: Any) -> None:
    """One worker, whose optimizer is built again by hand after each step."""
    kept = Toy(lambda parameters: kind(parameters, lr=0.01))
    anew = weights(kept, 1, Strategy(consistency=LocalSteps(1), local=ResetMoments()))

    def rebuilt(worker: Any) -> None:
        model = network()
        model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=1.0))
        for _ in range(2):
            for x, y in worker.batches(data(), batch_size=8):
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                stepped = copy.deepcopy(model)
                for parameter, own in zip(model.parameters(), stepped.parameters(), strict=True):
                    own.grad = parameter.grad
                kind(stepped.parameters(), lr=0.01).step()
                for parameter, own in zip(model.parameters(), stepped.parameters(), strict=True):
                    parameter.grad = (parameter - own).detach()
                optimizer.step()

    by_hand = run(rebuilt, workers=1, strategy="single", on=Simulator(), seed=5)
    torch.testing.assert_close(anew, torch.cat([value.reshape(-1) for value in by_hand.weights.values()]), rtol=0, atol=1e-6)


def test_a_rule_for_local_steps_is_refused_where_there_are_none() -> None:
    with pytest.raises(CompositionError, match="BulkSynchronous is for gradients, and Proximal for updates or weights"):
        Strategy(consistency=BulkSynchronous(), local=Proximal(0.1))
    with pytest.raises(CompositionError, match="Inside groups"):
        Strategy(
            exchange=Hierarchical(inner=Exchange(consistency=LocalSteps(2), local=Proximal(0.1)), outer=Exchange(consistency=LocalSteps(4)))
        )


# Unequal batches, weighed by their samples: DLion, Hong & Chandra


@dataclass(frozen=True)
class InProportion:
    """Worker r gets shares[r] samples of each batch of sum(shares)."""

    shares: tuple[int, ...]
    sends: ClassVar = False
    weighs: ClassVar = False
    takes: ClassVar = frozenset[ControlledSetting]()

    def feed(self, deals: Deals, port: Port, perform: Perform, controls: Controls, follow: Follow = unfollowed) -> Feed:
        """One worker's."""
        return _Shares(self.shares, deals.group)

    def stream(self, stream: SampleStream, group: Group, number: int, batch_size: int) -> Iterator[Batch]:
        """Not needed here."""
        raise AssertionError

    def share(self, order: Order, group: Group, number: int) -> Sequence[int]:
        """Not needed here."""
        raise AssertionError


@dataclass
class _Shares:
    shares: tuple[int, ...]
    group: Group

    def count(self, source: Source, batch_size: int) -> int:
        return len(source.order) // sum(self.shares)

    def epoch(self, source: Source, deals: PassDeals, batch_size: int, first: int = 0) -> Iterator[Batch]:
        order, first = source.order.indices(self.group.seed, deals.number), sum(self.shares[: self.group.rank])
        starts = range(first, len(order) - len(order) % sum(self.shares), sum(self.shares))
        yield from source.load([list(order[at : at + self.shares[self.group.rank]]) for at in starts], 0)

    def skip(self, source: Source, number: int, batch_size: int, batches: int) -> None:
        return None


def test_unequal_batches_weigh_as_their_samples() -> None:
    """n P / (all samples of a step) times the loss: the mean over workers is then that over samples."""
    shares = (12, 8, 4)

    def train(worker: Any) -> None:
        model = network()
        model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.05))
        for x, y in worker.batches(data(), batch_size=24):
            optimizer.zero_grad()
            (F.cross_entropy(model(x), y) * len(x) * worker.workers / 24).backward()
            optimizer.step()

    unequal = run(train, workers=3, strategy=Strategy(shuffle=InProportion(shares)), on=Simulator(), seed=5)
    alone = run(train, workers=1, strategy=Strategy(shuffle=InProportion((24,))), on=Simulator(), seed=5)
    for name, value in alone.weights.items():
        torch.testing.assert_close(unequal.weights[name], value, rtol=0, atol=1e-6)
