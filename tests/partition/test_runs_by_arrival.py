"""Laws of models in parts under systems that merge what comes first: parts of one replica may merge in different orders."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import polyrhythm as pr
from polyrhythm.core.protocols.partition import divided_over
from polyrhythm.core.strategy.control_loop import ControlLoop
from polyrhythm.errors import CompositionError
from polyrhythm.hardware.network import Site
from polyrhythm.partition.pipeline import Pipelined, Step
from polyrhythm.partition.tensor_parallel.columns import Columns, Rows
from polyrhythm.partition.zero import Zero

FLEET = pr.hardware.Fleet(paces=(pr.hardware.Mixed((1.0, 1.0, 0.5, 0.7)), pr.hardware.Jitter(0.1)))
UNEQUAL = pr.Simulator(network="lan", devices=FLEET, seed=1)
NAMES = {"0": Columns(), "2": Rows()}
STAGES = pr.Cut(pipeline=Pipelined(micro_batches=3))
WHOLE: dict[int, list[Tensor]] = {}


class Chain(nn.Sequential):
    """Two layers around a third; `tied` has the first and the last share their weight."""

    def __init__(self, tied: bool = False) -> None:
        super().__init__(nn.Linear(10, 20), nn.Tanh(), nn.Linear(20, 10), nn.Tanh(), nn.Linear(10, 20 if tied else 4))
        if tied:
            self[4].weight = self[0].weight

    def sequence(self) -> list[Step]:
        return [Step(each, (str(place),)) for place, each in enumerate(self)]


def samples() -> tuple[Tensor, Tensor]:
    x = torch.randn(96, 10, generator=torch.Generator().manual_seed(0))
    return x, x[:, :4].argmax(1)


def train(worker: pr.Worker, tied: bool = False) -> None:
    model: nn.Module = Chain(tied)
    optimizer: torch.optim.Optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.5)
    model, optimizer = worker.attach(model, optimizer, loss=F.cross_entropy)
    worker.evaluate(lambda whole: {"after": F.cross_entropy(whole(samples()[0]), samples()[1])})
    for _ in worker.epochs(6):
        for x, y in worker.batches(samples(), batch_size=12):
            optimizer.zero_grad()
            loss = worker.train_step(x, y)
            optimizer.step()
            worker.report(loss=loss)
    WHOLE[worker.rank] = [each.detach().clone() for each in model.parameters() if not divided_over(each)]


LAYOUTS = [
    (pr.Mesh(dp=2, tp=2), pr.Cut(NAMES), {}),
    (pr.Mesh(dp=2, pp=2), STAGES, {}),
    (pr.Mesh(site=2, dp=2), pr.Cut(), {"dp": Zero(3)}),
]


@pytest.mark.parametrize("on", [UNEQUAL, pr.Processes()])
@pytest.mark.parametrize("system", ["ssp", "adpsgd", "async-local-sgd"])
@pytest.mark.parametrize(("mesh", "cut", "inside"), LAYOUTS)
def test_replicas_in_parts_learn_from_what_comes_first(mesh: pr.Mesh, cut: pr.Cut, inside: dict[str, Any], system: str, on: Any) -> None:
    run = pr.run(train, mesh=mesh, cut=cut, strategy={**inside, mesh.names[0]: system}, on=on)
    assert run.summary.samples == 6 * 96
    assert run.summary.final["after"] < 1.2  # of ln 4


def test_what_all_workers_of_a_replica_have_whole_is_the_same_after_each_step() -> None:
    WHOLE.clear()
    pr.run(train, mesh=pr.Mesh(dp=2, tp=2), cut=pr.Cut(NAMES), strategy="asysg-incon", on=UNEQUAL)
    for rank in (0, 2):
        assert WHOLE[rank]
        for mine, others in zip(WHOLE[rank], WHOLE[rank + 1], strict=True):
            assert torch.equal(mine, others)


@pytest.mark.parametrize("on", [UNEQUAL, pr.Processes()])
@pytest.mark.parametrize(("mesh", "cut", "inside"), LAYOUTS)
def test_batches_by_speed_are_those_of_a_replica(mesh: pr.Mesh, cut: pr.Cut, inside: dict[str, Any], on: Any) -> None:
    """Each worker measures its own speed, and workers with parts of one replica must have the same batches."""
    run = pr.run(train, mesh=mesh, cut=cut, strategy={**inside, mesh.names[0]: "dlion"}, on=on)
    assert run.summary.samples > 5 * 96


LINES = [(a, b) for a in range(4) for b in range(4) if a != b]
SITES = [Site(str(number), 1e9, 1e9, 1e-5) for number in range(4)]
SIZES: dict[int, list[int]] = {}


def noting(worker: pr.Worker) -> None:
    """Note the samples of each batch."""
    model: nn.Module = Chain()
    optimizer: torch.optim.Optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    model, optimizer = worker.attach(model, optimizer, loss=F.cross_entropy)
    for _ in worker.epochs(6):
        for x, y in worker.batches(samples(), batch_size=12):
            SIZES.setdefault(worker.rank, []).append(len(x))
            optimizer.zero_grad()
            worker.train_step(x, y)
            optimizer.step()


def hearing_late(worker: pr.Worker, late: int) -> None:
    """Train as one of whose four workers `late` hears of no other's speed until its second decision."""
    share = ControlLoop._share

    async def alone(loop: ControlLoop, clock: int) -> None:
        if worker.rank != late or clock > 10:
            await share(loop, clock)

    ControlLoop._share = alone  # type: ignore[method-assign]  # in a process that ends with the run
    noting(worker)


def late(line: tuple[int, int]) -> pr.Simulator:
    """A simulator in which what one worker sends to another comes several steps later than all else."""
    latency = {(str(a), str(b)): 0.05 if (a, b) == line else 1e-4 for a, b in LINES}
    return pr.Simulator(network=pr.hardware.Network.joined("late", SITES, latency, {}), devices=FLEET, seed=1)


@pytest.mark.parametrize("line", [(2, 0), (3, 1)])
@pytest.mark.parametrize(("mesh", "cut", "inside"), LAYOUTS)
def test_who_hears_of_speeds_later_has_the_batches_of_the_first_of_its_replica(
    mesh: pr.Mesh, cut: pr.Cut, inside: dict[str, Any], line: tuple[int, int]
) -> None:
    """The replicas are workers 0 and 1, and 2 and 3: either the first or the second hears of the other replica after a decision."""

    SIZES.clear()
    pr.run(noting, mesh=mesh, cut=cut, strategy={**inside, mesh.names[0]: "dlion"}, on=late(line))
    assert SIZES[0] == SIZES[1]
    assert SIZES[2] == SIZES[3]
    assert len({*SIZES[0], *SIZES[2]}) > 1


@pytest.mark.parametrize("late", [0, 1])
def test_who_hears_of_speeds_later_has_the_batches_of_the_first_in_real_processes_too(late: int) -> None:
    """A stage that had batches of other sizes would fail."""
    pr.run(partial(hearing_late, late=late), mesh=pr.Mesh(dp=2, pp=2), cut=STAGES, strategy="dlion", on=pr.Processes())


@pytest.mark.parametrize("system", ["horovod", "powersgd", "byteps", "bitvector"])
def test_stages_train_where_exchanges_begin_in_the_backward_pass(system: str) -> None:
    """A batch in parts has several backward passes, and gradients are complete after the last."""
    run = pr.run(train, mesh=pr.Mesh(dp=2, pp=2), cut=STAGES, strategy=system, on=pr.Simulator())
    whole = pr.run(train, workers=2, strategy=system, on=pr.Simulator())
    assert run.summary.final["loss"] == pytest.approx(whole.summary.final["loss"], rel=0.1)


def test_the_same_seed_gives_the_same_bytes() -> None:
    runs = [pr.run(train, mesh=pr.Mesh(dp=2, tp=2), cut=pr.Cut(NAMES), strategy="adpsgd", on=UNEQUAL) for _ in range(2)]
    assert runs[0].summary == runs[1].summary


def test_a_weight_at_several_stages_is_refused() -> None:
    def tied(worker: pr.Worker) -> None:
        train(worker, tied=True)

    with pytest.raises(CompositionError, match="one weight at several stages"):
        pr.run(tied, mesh=pr.Mesh(dp=2, pp=2), cut=STAGES, strategy="ssp", on=pr.Simulator())
