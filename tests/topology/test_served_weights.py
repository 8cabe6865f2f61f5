"""What servers respond: with rows that changed, the weights are those that all weights would give."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from test_collapse import OPTIMIZERS
from toy import Toy, trained

from polyrhythm.consistency import Asynchronous, Bounded, BulkSynchronous, Intervals, LocalSteps, SoftSync
from polyrhythm.core.kernel.message import Message, wire_bytes
from polyrhythm.core.simulator import Instant, Simulator
from polyrhythm.core.strategy import Exchange, Hierarchical, Strategy
from polyrhythm.core.tensors import Layout
from polyrhythm.core.training.run import run
from polyrhythm.core.weights.remote_optimizer import describe
from polyrhythm.hardware.devices import Profile
from polyrhythm.hardware.fleet import Fleet, Mixed
from polyrhythm.hardware.network import Network
from polyrhythm.merge import Adagrad, Elastic, Mean, Nesterov, OuterOptimizer, Sum
from polyrhythm.topology import ChangedRows, Mirrors, Server, ZerosInBits
from polyrhythm.topology.servers.served_weights import RowLog
from polyrhythm.topology.servers.server_records import Done, JoinRequest, Push, ShardRecipe, ShardStatus, Wanted, to_numbers
from polyrhythm.topology.servers.zeros_in_bits import compressed, expanded

LAYOUT = Layout(("table", "bias", "cube"), ((6, 3), (4,), (5, 2, 2)))
UNEVEN = Simulator(network=Network.uniform("near", "1 Gbit/s", "1 ms"), devices=Fleet((Profile("m", (0.02,)),), (Mixed((1.0, 0.6, 0.2)),)))


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**20), dtype=st.sampled_from([torch.float32, torch.float64]))
def test_a_worker_of_any_version_comes_to_the_bits_of_the_newest(seed: int, dtype: torch.dtype) -> None:
    draw = torch.Generator().manual_seed(seed)
    weights = torch.randn(LAYOUT.numel, generator=draw).to(dtype)
    log, history = RowLog(weights, LAYOUT), [weights.clone()]
    for version in range(1, 6):
        for view in LAYOUT.views(weights):
            touched = torch.rand(len(view), generator=draw) < 0.3
            view[touched] *= -1 if version % 2 else 0  # a zero may change its sign alone
        log.changed(weights, version)
        history.append(weights.clone())
    for version, held in enumerate(history):
        packet = log.packet(weights, version)
        found = ChangedRows().unpacked(packet, held, LAYOUT)
        assert found.numpy().tobytes() == weights.numpy().tobytes()
        different = [
            (a != b).flatten(1).any(1).sum() for a, b in zip(LAYOUT.views(held), LAYOUT.views(weights), strict=True) if a.dim() > 1
        ]
        assert all(number >= least for number, least in zip(packet[0].tolist(), different, strict=True))
    assert ChangedRows().unpacked(log.packet(weights, -1), torch.zeros(0), LAYOUT) is weights
    assert not log.packet(weights, 5)[1].numel(), "nothing has changed since the newest"


@pytest.mark.parametrize(
    "pieces",
    [
        {"consistency": BulkSynchronous()},
        {"consistency": Asynchronous()},
        {"consistency": SoftSync(2)},
        {"consistency": SoftSync(1, Bounded(2)), "merge": Sum()},
        {"consistency": Intervals(2, 2)},
        {"consistency": LocalSteps(1, Bounded(2))},
        {"consistency": LocalSteps(3), "merge": OuterOptimizer(Nesterov())},
        {"consistency": LocalSteps(2, Asynchronous()), "merge": Elastic()},
        {"consistency": Asynchronous(), "merge": OuterOptimizer(Adagrad(0.05))},
    ],
    ids=repr,
)
def test_rows_that_changed_give_the_bits_of_all_weights(pieces: dict[str, Any]) -> None:
    """All workers are equally fast, on a network without time: what is sent decides over no order."""
    toy = Toy(OPTIMIZERS["momentum"], batch_size=4)
    on = Simulator(network=Instant())
    kinds = (Server(2), Server(2, ChangedRows()), Server(2, ZerosInBits(ChangedRows())))
    found = {trained(toy, 3, Strategy(topology=server, **pieces), on).summary.weights_sha256 for server in kinds}
    assert len(found) == 1


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**20), zeros=st.floats(0, 1), dtype=st.sampled_from([torch.float16, torch.float32, torch.float64]))
def test_zeros_take_a_bit_and_no_bit_is_lost(seed: int, zeros: float, dtype: torch.dtype) -> None:
    draw = torch.Generator().manual_seed(seed)
    value = torch.randn(200, generator=draw).to(dtype)
    value[torch.rand(200, generator=draw) < zeros] = 0.0
    value[:3] = torch.tensor([-0.0, float("inf"), float("nan")], dtype=dtype)
    counts, packet = torch.tensor([3, 0]), compressed((torch.tensor([3, 0]), value, value[:0]))
    found = expanded(packet)
    assert [tensor.dtype for tensor in found] == [counts.dtype, dtype, dtype]
    assert [tensor.numpy().tobytes() for tensor in found] == [counts.numpy().tobytes(), value.numpy().tobytes(), b""]
    present = int((value.view({2: torch.int16, 4: torch.int32, 8: torch.int64}[value.element_size()]) != 0).sum())
    sent = sum(tensor.nbytes for tensor in packet) - counts.nbytes - packet[0].nbytes
    assert sent == min(value.nbytes, 25 + present * value.element_size())
    assert expanded(compressed(())) == ()


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_under_every_optimizer_the_bits_are_the_same(optimizer: str) -> None:
    toy = Toy(OPTIMIZERS[optimizer])
    one, other = (trained(toy, 4, Strategy(topology=server)).summary for server in (Server(3), Server(3, ChangedRows())))
    assert one.weights_sha256 == other.weights_sha256


def test_mirrored_servers_send_what_other_groups_changed() -> None:
    def gaia(server: Server) -> Strategy:
        inner = Exchange(consistency=LocalSteps(1, Bounded(0)), topology=server, merge=Mean())
        outer = Exchange(consistency=LocalSteps(1, Bounded(3)), topology=Mirrors(), merge=Sum())
        return Strategy(exchange=Hierarchical(inner=inner, outer=outer, groups=2))

    one, other = (
        trained(Toy(epochs=4), 4, gaia(server), Simulator(network=Instant())).summary for server in (Server(), Server(1, ChangedRows()))
    )
    assert one.weights_sha256 == other.weights_sha256


def test_workers_out_of_step_have_weights_that_the_server_had() -> None:
    strategy = Strategy(consistency=SoftSync(3), topology=Server(1, ChangedRows()))
    assert trained(Toy(OPTIMIZERS["momentum"], batch_size=4, epochs=12), 3, strategy, UNEVEN).final["loss"] < 0.7


def test_a_response_has_the_rows_that_some_worker_touched() -> None:
    """Worker k's gradient is of rows 2 k and 2 k + 1 of twenty, at every step."""
    workers, steps, rows, width = 3, 4, 20, 5

    def train(worker: Any) -> None:
        model = torch.nn.Embedding(rows, width)
        model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.1))
        for _ in range(steps):
            optimizer.zero_grad()
            model(torch.tensor([2 * worker.rank, 2 * worker.rank + 1])).sum().backward()
            worker.count(2)
            optimizer.step()

    summary = run(train, workers=workers, strategy=Strategy(topology=Server(1, ChangedRows())), on=Simulator(network=Instant())).summary
    weights, numbers = torch.zeros(rows * width), (0.0,) * len(ShardStatus(0, 0.0).to_numbers())
    model = torch.nn.Embedding(rows, width)
    optimizer = describe(torch.optim.SGD(model.parameters(), lr=0.1), {id(model.weight): "weight"})
    recipe = msgspec.json.encode(ShardRecipe(("weight",), ((rows, width),), optimizer)).decode()
    changed = 2 * workers
    indices, values = torch.zeros(changed, dtype=torch.int32), torch.zeros(changed * width)
    expected = wire_bytes(Message("ask", to_numbers(JoinRequest()), recipe, (weights,))) + (workers - 1) * wire_bytes(
        Message("ask", to_numbers(JoinRequest()))
    )
    expected += workers * steps * wire_bytes(Message("ask", to_numbers(Push(1, 0, Wanted.NEWER, (0.1,))), tensors=(weights,)))
    expected += (
        workers * steps * wire_bytes(Message("w0", numbers, tensors=(torch.zeros(1, dtype=torch.int64), indices, values, torch.zeros(0))))
    )
    expected += workers * (wire_bytes(Message("ask", to_numbers(Done()))) + 2 * wire_bytes(Message("w0", numbers, tensors=(weights,))))
    assert summary.bytes_sent == expected
