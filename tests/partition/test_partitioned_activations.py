"""Laws of activations that are kept in parts: the values of one process, in as much less memory as there are ranks."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import polyrhythm as pr
from polyrhythm.errors import CompositionError
from polyrhythm.partition.counted_axis import CountedAxis
from polyrhythm.partition.memory import PartitionedActivations
from polyrhythm.partition.place import Place
from polyrhythm.partition.tensor_parallel.columns import Columns, Rows
from polyrhythm.partition.tensor_parallel.dropout import DropByPlace

from .ranks import close, on_ranks

WIDTH, ROWS, STEPS = 8, 5, 20
STYLES = {"1": Columns(), "3": Rows(), "4": DropByPlace()}
CUT = pr.Cut({"[12]": PartitionedActivations("tp", STYLES)})


def net() -> nn.Sequential:
    torch.manual_seed(1)

    def block() -> nn.Sequential:
        return nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 12), nn.GELU(), nn.Linear(12, WIDTH), nn.Dropout(0.2))

    return nn.Sequential(nn.Identity(), block(), block(), nn.Linear(WIDTH, 2))


def trained(model: nn.Module) -> list[Tensor]:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    x = torch.randn(ROWS, WIDTH, generator=torch.Generator().manual_seed(0))
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), x[:, :2].sin())
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return losses


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 8])
def test_values_are_those_of_one_process_in_a_part_of_the_memory(ranks: int) -> None:
    kept: dict[int, list[int]] = {}

    def program(place: Place, rank: int) -> Any:
        model = net()
        CUT.apply(model, place)
        for number in (1, 2):
            block: Any = model[number]
            keep = block.keep
            block.keep = lambda value, keep=keep: _noted(keep(value), kept.setdefault(rank, []))
        losses = trained(model)
        axis = place.axis("tp")
        return losses, dict(axis.calls), dict(axis.nbytes), model[3].weight.detach()

    alone = net()
    plain = pr.Cut({f"{number}.{name}": style for number in (1, 2) for name, style in STYLES.items()})
    plain.apply(alone, Place({"tp": CountedAxis("tp", 1, 0)}))
    expected = trained(alone)
    found = on_ranks(program, tp=ranks)
    for rank, (losses, calls, nbytes, weight) in enumerate(found):
        for loss, one in zip(losses, expected, strict=True):
            close(loss, one)
        close(weight, alone[3].weight.detach())  # type: ignore[arg-type]
        assert len(kept[rank]) == 2 * STEPS
        sizes = [ROWS * WIDTH // ranks, -(-ROWS * WIDTH // ranks)]
        assert all(sizes[0] <= numel <= sizes[1] for numel in kept[rank])
        if ranks > 1:
            assert calls["all_gather"] == 2 * STEPS
            assert nbytes["all_gather"] == pytest.approx(4 * sum(kept[rank]) * (ranks - 1))


def _noted(found: Any, kept: list[int]) -> Any:
    if isinstance(found, tuple):
        kept.append(found[0].numel())
    return found


def test_it_is_counted_without_memory() -> None:
    axis = CountedAxis("tp", 4, 1)
    model = net().to("meta")
    CUT.apply(model, Place({"tp": axis}, device="meta"))
    model(torch.empty(ROWS, WIDTH, device="meta")).sum().backward()
    assert axis.calls["all_gather"] == 2
    assert axis.nbytes["all_gather"] == 2 * 4 * (ROWS * WIDTH // 4) * 3


def train(worker: pr.Worker) -> None:
    model = worker.build(net)
    optimizer: torch.optim.Optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model, optimizer = worker.attach(model, optimizer, loss=F.mse_loss)
    x = torch.randn(ROWS, WIDTH, generator=torch.Generator().manual_seed(0))
    for _ in worker.range(5):
        worker.count(ROWS if worker.counts_samples else 0)
        optimizer.zero_grad()
        worker.train_step(x, x[:, :2].sin())
        optimizer.step()


def test_runs_have_the_same_weights() -> None:
    divided = pr.run(train, mesh=pr.Mesh(tp=2), cut=CUT, on=pr.Simulator())
    plain = pr.Cut({f"{number}.{name}": style for number in (1, 2) for name, style in STYLES.items()})
    whole = pr.run(train, mesh=pr.Mesh(tp=1), cut=plain, on=pr.Simulator())
    assert divided.weights.keys() == whole.weights.keys()
    for name, value in divided.weights.items():
        close(value, whole.weights[name])
    real = pr.run(train, mesh=pr.Mesh(tp=2), cut=CUT, on=pr.Processes())
    assert real.summary.weights_sha256 == divided.summary.weights_sha256


def test_running_statistics_are_refused() -> None:
    with pytest.raises(CompositionError, match="would be taken in both forward passes"):
        pr.Cut({"0": PartitionedActivations()}).apply(
            nn.Sequential(nn.Sequential(nn.BatchNorm1d(3))), Place({"tp": CountedAxis("tp", 2, 0)})
        )
