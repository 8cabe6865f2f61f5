from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import ModuleType

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

DOCS = Path(__file__).resolve().parents[2] / "docs"
WORKERS, BATCH, FEATURES = 4, 4, 64
FEW, MANY = 20, 40


def generator() -> ModuleType:
    name = "generate_systems"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, DOCS / "generate_systems.py")
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return sys.modules[name]


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


def test_the_page_of_the_systems_is_up_to_date() -> None:
    written = (DOCS / "systems.md").read_text(encoding="utf-8")
    assert written == generator().page(), "run python docs/generate_systems.py"


def test_the_table_of_the_readme_names_every_system_once() -> None:
    readme = (Path(__file__).resolve().parents[2] / "README.md").read_text(encoding="utf-8")
    table = readme.split("| baseline |")[1].split("\n\n")[0]
    named = re.findall(r"`([a-z0-9-]+)`", table.replace("and options of `onebit` and `climate`", ""))
    assert sorted(named) == sorted(SYSTEMS)


def test_the_readme_counts_the_systems_without_the_baseline() -> None:
    readme = (Path(__file__).resolve().parents[2] / "README.md").read_text(encoding="utf-8")
    [number] = re.findall(r"^(\d+) published systems and a baseline", readme, re.MULTILINE)
    assert int(number) == len(set(SYSTEMS) - {"single"})


def test_the_page_states_of_every_system_what_it_sends() -> None:
    assert set(generator().SENT) == set(SYSTEMS)


VALUES_DECIDE = (
    *("ssp", "consgd", "dynsgd", "asysg-incon", "rudra-adv", "rudra-adv-star", "strom", "gaia", "powersgd", "poseidon"),
    *("project-adam",),
    *("adasum", "horovod", "bitvector"),
    *("dl4j-sharing", "actors-decentralised"),
    *("slowmo", "streaming-diloco", "local-sgd", "qsparse-local-sgd"),  # these in tests/systems/test_traffic.py
    *("dgc", "powersgd-plus", "sparta"),  # the step decides, or headers count
    "li-ps",  # what is zero, filtered or changed
    *("ako", "hong-chandra", "dlion"),  # what is measured decides
    "async-local-sgd",  # speeds decide
    *("fedavg", "fedprox", "fedadam"),  # who is drawn: in tests/systems/test_federated.py
)


@pytest.mark.parametrize("name", sampled(name for name in SYSTEMS if name not in VALUES_DECIDE))
def test_what_the_page_states_is_sent_is_what_runs_send(name: str) -> None:
    promised, (nbytes, messages) = generator().SENT[name], per_step(name)
    assert nbytes == pytest.approx(promised.nbytes(WORKERS, *sizes(name)), rel=0.03)
    assert promised.messages is None or messages == promised.messages(WORKERS)


def test_ssp_sends_between_its_pushes_and_twice_as_much() -> None:
    pushes = WORKERS * sizes("ssp")[0]
    assert pushes < per_step("ssp")[0] < 2.02 * pushes
