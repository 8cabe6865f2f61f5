"""What the page of the systems states of what is sent is what runs send."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest
import torch
from kinds import sampled
from torch import nn

from polyrhythm.core import rng
from polyrhythm.core.kernel.group import Group
from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.simulator import Instant, Simulator
from polyrhythm.core.tensors import Layout
from polyrhythm.core.training.run import run
from polyrhythm.core.training.worker import Worker
from polyrhythm.systems import SYSTEMS, find

WORKERS, BATCH, FEATURES = 4, 4, 64
FEW, MANY = 20, 40


def model() -> nn.Module:
    return nn.Sequential(nn.Linear(FEATURES, 256), nn.ReLU(), nn.Linear(256, 256))


def trainer(steps: int) -> Callable[[Worker], None]:
    def train(worker: Worker) -> None:
        data = torch.randn(steps * BATCH * WORKERS, FEATURES)
        attached, optimizer = worker.attach(net := model(), torch.optim.SGD(net.parameters(), lr=1e-3))
        for (x,) in worker.batches((data,), batch_size=BATCH):
            optimizer.zero_grad()
            attached(x).square().mean().backward()
            optimizer.step()

    return train


@cache
def per_step(name: str) -> tuple[float, float]:
    """Bytes and messages."""
    few, many = (run(trainer(steps), workers=WORKERS, strategy=name, on=Simulator(network=Instant())).summary for steps in (FEW, MANY))
    return (many.bytes_sent - few.bytes_sent) / (MANY - FEW), (many.messages_sent - few.messages_sent) / (MANY - FEW)


def sizes(name: str) -> tuple[int, int, int]:
    """Bytes of the model, of the model in the words of the codec once it has warmed up, and of a batch."""
    layout = Layout.of(model().named_parameters())
    codec = find(name).exchange.agreement.codec
    for _ in range({"onebit": 2, "demo": 3}.get(name, 0)):
        codec = codec.inner
    context = ExchangeContext(Group.of_workers(1, 0), rng.stream(0, "packet"))
    if not codec.traits.makes_packets:
        return 4 * layout.numel, 0, 4 * BATCH * FEATURES
    packet = codec.encode(torch.randn(layout.numel), layout, codec.initial(layout), context).packet
    return 4 * layout.numel, sum(tensor.numel() * tensor.element_size() for tensor in packet), 4 * BATCH * FEATURES


SENT: dict[str, tuple[Callable[[int, int, int, int], float], Callable[[int], int] | None]] = {
    "fedbuff": (lambda P, M, B, D: 2 * P * M / 10, None),
    "geeps": (lambda P, M, B, D: 2 * P * M, None),
    "single": (lambda P, M, B, D: 0, lambda P: 0),
    "allreduce": (lambda P, M, B, D: 2 * (P - 1) * M, lambda P: 2 * P * (P - 1)),
    "direct": (lambda P, M, B, D: 2 * (P - 1) * M, lambda P: 2 * P * (P - 1)),
    "tree": (lambda P, M, B, D: 2 * (P - 1) * M, lambda P: 2 * (P - 1)),
    "downpour": (lambda P, M, B, D: 2 * P * M, lambda P: 2 * P),
    "sandblaster": (lambda P, M, B, D: 2 * P * M, lambda P: 4 * P),
    "softsync": (lambda P, M, B, D: 2 * P * M, lambda P: 2 * P),
    "sparknet": (lambda P, M, B, D: 2 * P * M / 10, None),
    "easgd": (lambda P, M, B, D: 2 * P * M / 10, None),
    "deepspark": (lambda P, M, B, D: 2 * P * M / 10, None),
    "onebit": (lambda P, M, B, D: 2 * (P - 1) * B, None),
    "gossipgrad": (lambda P, M, B, D: P * (M + D), None),
    "zhang-asgd": (lambda P, M, B, D: 2 * P * M, lambda P: 2 * P),
    "asysg-con": (lambda P, M, B, D: 2 * P * M, None),
    "rudra": (lambda P, M, B, D: 2 * P * M, None),
    "paine": (lambda P, M, B, D: 2 * P * M / 10, None),
    "diloco": (lambda P, M, B, D: 2 * (P - 1) * M / 20, None),
    "hierarchical": (lambda P, M, B, D: 3 * (P - 1) * M, None),
    "hierarchical-local-sgd": (lambda P, M, B, D: 2 * (P - 1) * M, None),  # of one group
    "hybrid-groups": (lambda P, M, B, D: 2 * P * M, None),
    "fifteen-pf": (lambda P, M, B, D: 2 * P * M, None),
    "yu": (lambda P, M, B, D: 3 * P * M, None),
    "parallax": (lambda P, M, B, D: 2 * (P - 1) * M, None),  # of a model without embeddings
    "hogwild": (lambda P, M, B, D: 0, None),
    "byteps": (lambda P, M, B, D: 2 * (P - 1) * M, None),
    "large-minibatch": (lambda P, M, B, D: 2 * (P - 1) * M, lambda P: 2 * P * (P - 1)),
    "climate": (lambda P, M, B, D: 3 * (P - 1) * M, None),
    "byteps-async": (lambda P, M, B, D: 2 * P * M, lambda P: 2 * P),
    "mxnet": (lambda P, M, B, D: P * (B + M), lambda P: 2 * P),
    "mxnet-worker-update": (lambda P, M, B, D: P * (B + M), None),
    "mxnet-async": (lambda P, M, B, D: P * (B + M), None),
    "actors": (lambda P, M, B, D: 2 * P * M, None),
    "actors-softsync": (lambda P, M, B, D: 2 * P * M, None),
    "d2l": (lambda P, M, B, D: 2 * (P - 1) * M, lambda P: 2 * (P - 1)),
    "parallel-sgd": (lambda P, M, B, D: 2 * (P - 1) * M, lambda P: 2 * (P - 1)),
    "firecaffe": (lambda P, M, B, D: 2 * (P - 1) * M, lambda P: 2 * (P - 1)),
    "yadan": (lambda P, M, B, D: 2 * (P - 1) * M, lambda P: 2 * P * (P - 1)),
    "bigdl": (lambda P, M, B, D: (3 * P + 1) * M, lambda P: 3 * P * (P + 1)),
    "collective-allreduce": (lambda P, M, B, D: 2 * (P - 1) * M, None),
    "post-local-sgd": (lambda P, M, B, D: 2 * (P - 1) * M, None),  # of the first steps
    "dl4j-averaging": (lambda P, M, B, D: 2 * (P - 1) * M / 5, None),  # under plain SGD
    "admm-sgd": (lambda P, M, B, D: 2 * (P - 1) * M / 10, None),
    "elephas": (lambda P, M, B, D: 2 * P * M / 20, None),
    "elephas-asynchronous": (lambda P, M, B, D: 2 * P * M, None),
    "elephas-hogwild": (lambda P, M, B, D: 0, None),
    "buckwild": (lambda P, M, B, D: 0, None),
    "dogwild": (lambda P, M, B, D: P * (P - 1) * M, None),
    "qsgd": (lambda P, M, B, D: P * (P - 1) * B, lambda P: P * (P - 1)),
    "terngrad": (lambda P, M, B, D: P * (P - 1) * B, lambda P: P * (P - 1)),
    "signsgd": (lambda P, M, B, D: 2 * (P - 1) * M / 32, lambda P: 2 * P * (P - 1)),
    "onebit-adam": (lambda P, M, B, D: 2 * (P - 1) * M / 32, None),
    "demo": (lambda P, M, B, D: P * (P - 1) * B, lambda P: P * (P - 1)),
    "pipe-sgd": (lambda P, M, B, D: (P - 1) * M, None),
    "decentralized": (lambda P, M, B, D: 2 * P * M, lambda P: 2 * P),
    "d-squared": (lambda P, M, B, D: 2 * P * M, lambda P: 2 * P),
    "exact-diffusion": (lambda P, M, B, D: 2 * P * M, lambda P: 2 * P),
    "choco-sgd": (lambda P, M, B, D: 2 * P * B, lambda P: 2 * P),
    "noloco": (lambda P, M, B, D: 2 * P * M / 20, None),
    "moshpit": (lambda P, M, B, D: P * M, lambda P: 2 * P),  # 2 by 2
    "gradient-tracking": (lambda P, M, B, D: 4 * P * M, lambda P: 4 * P),
    "sgp": (lambda P, M, B, D: P * M, lambda P: P),
    "gossiping-sgd": (lambda P, M, B, D: P * M / 10, None),
    "keuper-asgd": (lambda P, M, B, D: P * M / 8, lambda P: P),
    "adpsgd": (lambda P, M, B, D: P * M, None),
}
"""What all workers and servers send in a step, where it does not depend on the data: bytes of payload and, where these are known, messages.

Bytes are of the workers P, the bytes of the model M, the bytes B of the encoded model, and the bytes D of a batch; messages with one
server, or a slice for each. What the other systems send depends on values, speeds or the step; tests/systems has tests of these.
"""


@pytest.mark.parametrize("name", sampled(name for name in SYSTEMS if name in SENT))
def test_what_the_page_states_is_sent_is_what_runs_send(name: str) -> None:
    (promised_bytes, promised_messages), (nbytes, messages) = SENT[name], per_step(name)
    assert nbytes == pytest.approx(promised_bytes(WORKERS, *sizes(name)), rel=0.03)
    assert promised_messages is None or messages == promised_messages(WORKERS)


def test_ssp_sends_between_its_pushes_and_twice_as_much() -> None:
    pushes = WORKERS * sizes("ssp")[0]
    assert pushes < per_step("ssp")[0] < 2.02 * pushes
