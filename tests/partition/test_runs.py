"""Laws of runs on a mesh: a layout never changes results, under any system that it allows, in both runtimes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import polyrhythm as pr
from polyrhythm import systems
from polyrhythm.core.protocols.partition import divided_over
from polyrhythm.errors import CompositionError
from polyrhythm.partition.pipeline import Pipelined
from polyrhythm.partition.tensor_parallel.columns import Columns, Rows
from polyrhythm.partition.zero import Zero

CUT = pr.Cut({"up": Columns(), "down": Rows()})
NOT_SO = ("single", "alone", "buckwild", "elephas-hogwild", "hogwild")
BY_TENSOR = ("adasum", "choco-sgd", "demo", "dgc", "onebit", "pipe-sgd", "powersgd", "powersgd-plus", "qsgd", "qsparse-local-sgd", "sparta")
"""Codecs and merges that choose or scale by what lies in one vector, which is a part's own: declared, since results differ."""
ALSO_BY_TENSOR = ("diloco-x", "streaming-diloco", "terngrad")
BY_ARRIVAL = ("actors-decentralised", "ako", "asysg-incon", "dl4j-sharing", "dlion", "dogwild", "hong-chandra", "keuper-asgd", "li-ps")
ALSO_BY_ARRIVAL = ("rudra-adv", "strom")
"""Systems that merge what comes first, for which parts come at other moments than the whole; others do so in the same order here."""


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.up, self.down, self.last = nn.Linear(10, 16), nn.Linear(16, 24), nn.Linear(24, 16), nn.Linear(16, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.tanh(self.first(x))
        y: Tensor = self.last(x + self.down(F.gelu(self.up(x))))
        return y


def samples() -> tuple[Tensor, Tensor]:
    x = torch.randn(96, 10, generator=torch.Generator().manual_seed(0))
    return x, x[:, :4].argmax(1)


def train(worker: pr.Worker, make: Callable[[], nn.Module] = Net) -> None:
    model = make()
    optimizer: torch.optim.Optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    model, optimizer = worker.attach(model, optimizer)
    loss = torch.zeros(())
    for _ in worker.epochs(2):
        for x, y in worker.batches(samples(), batch_size=8):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
    worker.report(loss=loss)
    FOUND[worker.rank] = {name: (divided_over(p), p.detach().clone()) for name, p in model.named_parameters()}


FOUND: dict[int, dict[str, tuple[tuple[str, ...], Tensor]]] = {}


def close(one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> None:
    assert list(one) == list(other)
    for name, value in one.items():
        torch.testing.assert_close(value, other[name], rtol=1e-5, atol=1e-5)


@cache
def whole(system: str, workers: int) -> pr.Run:
    return pr.run(train, workers=workers, strategy=system, on=pr.Simulator())


@pytest.mark.parametrize("system", sorted(systems.SYSTEMS))
def test_replicas_in_parts_train_as_whole_ones_under_every_system_or_are_refused(system: str) -> None:
    """What all workers of a replica have whole is the same to the bit, by themselves; what is chosen by vectors differs, and is listed."""
    FOUND.clear()
    arguments: dict[str, Any] = {"strategy": system, "on": pr.Simulator()}
    if system in NOT_SO:
        with pytest.raises(CompositionError, match=r"write to the same weights|replicas that the mesh has"):
            pr.run(train, mesh=pr.Mesh(dp=2, tp=2), cut=CUT, **arguments)
        return
    run = pr.run(train, mesh=pr.Mesh(dp=2, tp=2), cut=CUT, **arguments)
    for rank in (0, 2):
        for name, (axes, value) in FOUND[rank].items():
            if not axes:
                assert torch.equal(value, FOUND[rank + 1][name][1]), f"{name} has drifted apart"
    assert run.summary.samples == whole(system, 2).summary.samples
    if system not in (*BY_TENSOR, *ALSO_BY_TENSOR, *BY_ARRIVAL, *ALSO_BY_ARRIVAL):
        close(run.weights, whole(system, 2).weights)
        assert run.summary.final["loss"] == pytest.approx(whole(system, 2).summary.final["loss"], rel=1e-4)


class Repeated(Net):
    """Its first layer is followed by one that stands at two places."""

    def __init__(self) -> None:
        super().__init__()
        self.again = nn.ModuleList([nn.Linear(16, 16)] * 2)
        self.pairs = nn.ModuleList([nn.Sequential(self.up, nn.GELU(), self.down)] * 2)

    def forward(self, x: Tensor) -> Tensor:
        x = self.again[1](torch.tanh(self.again[0](torch.tanh(self.first(x)))))
        y: Tensor = self.last(x + self.pairs[1](x + self.pairs[0](x)))
        return y


@pytest.mark.parametrize("names", [{}, {"up": Columns(), "down": Rows()}, {"pairs.1.*0": Columns(), "pairs.0.2": Rows()}])
def test_modules_that_stand_at_two_places_are_trained(names: dict[str, Any]) -> None:
    """At all of their places, divided or not."""

    def repeated(worker: pr.Worker) -> None:
        train(worker, Repeated)

    run = pr.run(repeated, mesh=pr.Mesh(dp=2, tp=2), cut=pr.Cut({"last": Columns(gathered=True), **names}), on=pr.Simulator())
    close(run.weights, pr.run(repeated, workers=2, strategy="allreduce", on=pr.Simulator()).weights)


@pytest.mark.parametrize("mesh", [pr.Mesh(dp=1, tp=3), pr.Mesh(tp=4, dp=1), pr.Mesh(tp=2, dp=2), pr.Mesh(dp=2, tp=1), pr.Mesh(dp=-1, tp=2)])
def test_axes_may_have_any_size_and_order(mesh: pr.Mesh) -> None:
    replicas = {"dp": 1} | dict(mesh.axes)
    workers = 4 if mesh.workers is None else None
    run = pr.run(train, mesh=mesh, cut=CUT, workers=workers, on=pr.Simulator())
    close(run.weights, whole("allreduce", 2 if replicas["dp"] in (2, -1) else 1).weights)


@pytest.mark.parametrize("inner", ["allreduce", "horovod"])
@pytest.mark.parametrize("outer", ["allreduce", "diloco", "local-sgd"])
def test_each_data_axis_may_have_a_system_of_its_own(inner: str, outer: str) -> None:
    run = pr.run(train, mesh=pr.Mesh(site=2, dp=2, tp=2), cut=CUT, strategy={"site": outer, "dp": inner}, on=pr.Simulator())
    flat = pr.run(train, mesh=pr.Mesh(site=2, dp=2), strategy={"site": outer, "dp": inner}, on=pr.Simulator())
    assert run.summary.samples == flat.summary.samples
    close(run.weights, flat.weights)


@pytest.mark.parametrize("system", ["allreduce", "diloco"])
def test_real_processes_and_virtual_time_give_the_same(system: str) -> None:
    runs = [pr.run(train, mesh=pr.Mesh(dp=2, tp=2), cut=CUT, strategy=system, on=on) for on in (pr.Simulator(), pr.Processes())]
    assert runs[0].summary.weights_sha256 == runs[1].summary.weights_sha256


def test_the_same_seed_gives_the_same_bytes() -> None:
    runs = [pr.run(train, mesh=pr.Mesh(dp=2, tp=2), cut=CUT, strategy="gossipgrad", on=pr.Simulator(network="slow")) for _ in range(2)]
    assert runs[0].summary == runs[1].summary


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"cut": CUT}, "A cut divides along the axes of a mesh"),
    ({"mesh": pr.Mesh(dp=2), "cut": CUT}, "has no such axis"),
    ({"mesh": pr.Mesh(dp=2, tp=2), "cut": CUT, "workers": 3}, "choose sizes whose product"),
    ({"mesh": pr.Mesh(dp=-1, tp=2), "cut": CUT}, "say how many"),
    ({"mesh": pr.Mesh(dp=2, tp=2), "cut": CUT, "workers": (2, 4)}, "has a fixed one"),
    ({"mesh": pr.Mesh(dp=2, tp=2), "cut": pr.Cut({"ups": Columns()})}, "matches no module"),
    ({"mesh": pr.Mesh(dp=2, tp=2), "cut": pr.Cut({"up": Columns(groups=5)})}, "up cannot be divided by"),
    ({"mesh": pr.Mesh(dp=2, tp=2), "cut": CUT, "strategy": {"tp": "allreduce"}}, "is not one of them"),
    ({"mesh": pr.Mesh(site=2, dp=2), "strategy": {"dp": "allreduce"}}, "has none for site"),
    ({"mesh": pr.Mesh(site=2, dp=2), "strategy": {"site": "allreduce", "dp": "diloco"}}, "inner"),
]


@pytest.mark.parametrize(("arguments", "message"), REFUSED)
def test_what_does_not_fit_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(CompositionError, match=message):
        pr.run(train, on=pr.Simulator(), **arguments)


@pytest.mark.parametrize("sizes", [{}, {"dp": 0}, {"dp": True}, {"dp": -1, "tp": -1}, {"dp": 1.5}])
def test_a_mesh_has_sizes_of_1_or_more(sizes: dict[str, Any]) -> None:
    with pytest.raises(CompositionError):
        pr.Mesh(**sizes)


@pytest.mark.parametrize("stage", [1, 2, 3])
@pytest.mark.parametrize(
    ("mesh", "cut", "strategy"),
    [
        (pr.Mesh(dp=2), None, {}),
        (pr.Mesh(dp=2, tp=2), CUT, {}),
        (pr.Mesh(site=2, dp=2), None, {"site": "diloco"}),
        (pr.Mesh(site=2, dp=2, tp=2), CUT, {"site": "local-sgd"}),
        (pr.Mesh(site=2, dp=1), None, {"site": "allreduce"}),
    ],
)
def test_replicas_that_share_their_state_train_as_with_an_all_reduce(stage: int, mesh: pr.Mesh, cut: Any, strategy: dict[str, Any]) -> None:
    sharded = pr.run(train, mesh=mesh, cut=cut, strategy={**strategy, "dp": Zero(stage)}, on=pr.Simulator())
    flat = pr.Mesh(**{name: size for name, size in mesh.axes if name != "tp"})
    reference = pr.run(train, mesh=flat, strategy={**strategy, "dp": "allreduce"}, on=pr.Simulator())
    assert sharded.summary.samples == reference.summary.samples
    close(sharded.weights, reference.weights)


class Chain(nn.Sequential):
    def __init__(self) -> None:
        super().__init__(nn.Linear(10, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 12), nn.Tanh(), nn.Linear(12, 4))


def train_by_steps(worker: pr.Worker) -> None:
    model = Chain()
    optimizer: torch.optim.Optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    model, optimizer = worker.attach(model, optimizer, loss=F.cross_entropy)
    loss = torch.zeros(())
    for _ in worker.epochs(2):
        for x, y in worker.batches(samples(), batch_size=12):
            optimizer.zero_grad()
            loss = worker.train_step(x, y)
            optimizer.step()
    worker.report(loss=loss)


@pytest.mark.parametrize("on", [pr.Simulator(), pr.Processes()])
@pytest.mark.parametrize(
    ("mesh", "names", "strategy"),
    [
        (pr.Mesh(pp=3), {}, {}),
        (pr.Mesh(dp=2, pp=2), {}, {"dp": "local-sgd"}),
        (pr.Mesh(dp=2, pp=2), {}, {"dp": Zero(2)}),
        (pr.Mesh(dp=2, pp=2, tp=2), {"2": Columns(), "4": Rows()}, {"dp": Zero(1)}),
        (pr.Mesh(site=2, dp=1, pp=2), {}, {"site": "diloco", "dp": "allreduce"}),
    ],
)
def test_stages_train_as_whole_models(on: Any, mesh: pr.Mesh, names: Any, strategy: Any) -> None:
    if on.kind == "processes" and len(mesh.axes) == 3:
        mesh = pr.Mesh(dp=2, pp=2)
        names, strategy = {}, {"dp": "allreduce"}
    cut = pr.Cut(names, pipeline=Pipelined(micro_batches=3))
    run = pr.run(train_by_steps, mesh=mesh, cut=cut, strategy=strategy or "allreduce", on=on)
    data = {name: size for name, size in mesh.axes if name in ("dp", "site")} or {"dp": 1}
    plain = {name: "allreduce" if isinstance(each, Zero) else each for name, each in strategy.items()}
    whole = pr.run(train_by_steps, mesh=pr.Mesh(**data), strategy=plain or "allreduce", on=pr.Simulator())
    close(run.weights, whole.weights)
    assert run.summary.samples == whole.summary.samples
    assert run.summary.final["loss"] == pytest.approx(whole.summary.final["loss"], rel=1e-4)


def test_stages_need_a_loss() -> None:
    with pytest.raises(CompositionError, match="the last one computes the loss"):
        pr.run(train, mesh=pr.Mesh(pp=2), cut=pr.Cut(pipeline=Pipelined()), on=pr.Simulator())


LAYOUTS = [
    (pr.Mesh(tp=2), {"2": Columns(), "4": Rows()}, None, {}),
    (pr.Mesh(dp=2, tp=2), {"2": Columns(), "4": Rows()}, None, {"dp": Zero(2)}),
    (pr.Mesh(dp=2), {}, None, {"dp": Zero(3)}),
    (pr.Mesh(pp=2, tp=2), {"2": Columns(), "4": Rows()}, Pipelined(micro_batches=2), {}),
]


def train_clipped(worker: pr.Worker) -> None:
    model = Chain()
    optimizer: torch.optim.Optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    model, optimizer = worker.attach(model, optimizer, loss=F.cross_entropy)
    worker.evaluate(lambda whole: {"loss": F.cross_entropy(whole(samples()[0]), samples()[1])})
    for x, y in worker.batches(samples(), batch_size=96 // worker.replicas):
        for _ in range(4):
            optimizer.zero_grad()
            worker.train_step(x, y)
            worker.report(norm=worker.clip_gradients(0.1))
            optimizer.step()
            worker.count(1)


@pytest.mark.parametrize(("mesh", "names", "pipeline", "strategy"), LAYOUTS)
def test_norms_and_evaluations_are_of_the_whole_model(mesh: pr.Mesh, names: Any, pipeline: Any, strategy: Any) -> None:
    run = pr.run(train_clipped, mesh=mesh, cut=pr.Cut(names, pipeline=pipeline), strategy=strategy or "allreduce", on=pr.Simulator())
    whole = pr.run(train_clipped, workers=1, on=pr.Simulator())
    close(run.weights, whole.weights)
    for name in ("norm", "loss"):
        assert run.summary.final[name] == pytest.approx(whole.summary.final[name], rel=1e-4)


def test_clipping_by_the_norm_of_a_part_is_refused() -> None:
    def by_torch(worker: pr.Worker) -> None:
        model = Net()
        model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.5))
        for x, y in worker.batches(samples(), batch_size=8):
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
            optimizer.step()

    with pytest.raises(CompositionError, match="undivided weights"):
        pr.run(by_torch, mesh=pr.Mesh(tp=2), cut=CUT, on=pr.Simulator())


def train_built(worker: pr.Worker) -> None:
    model = worker.build(Chain)
    optimizer: torch.optim.Optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    model, optimizer = worker.attach(model, optimizer, loss=F.cross_entropy)
    for x, y in worker.batches(samples(), batch_size=96 // worker.replicas):
        optimizer.zero_grad()
        worker.train_step(x, y)
        optimizer.step()


@pytest.mark.parametrize(("mesh", "names", "pipeline", "strategy"), LAYOUTS)
def test_models_that_are_built_in_parts_begin_as_on_one_device(mesh: pr.Mesh, names: Any, pipeline: Any, strategy: Any) -> None:
    run = pr.run(train_built, mesh=mesh, cut=pr.Cut(names, pipeline=pipeline), strategy=strategy or "allreduce", on=pr.Simulator())
    close(run.weights, pr.run(train_built, mesh=pr.Mesh(dp=1), on=pr.Simulator()).weights)


def train_saving(worker: pr.Worker, until: int) -> None:
    model = Chain()
    optimizer: torch.optim.Optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    model, optimizer = worker.attach(model, optimizer, loss=F.cross_entropy)
    for epoch in worker.epochs(until):
        for x, y in worker.batches(samples(), batch_size=24 // worker.replicas):
            optimizer.zero_grad()
            worker.train_step(x, y)
            optimizer.step()
        if epoch < until - 1:
            worker.save()


TP = {"2": Columns(), "4": Rows()}
RELAID = [
    [
        (pr.Mesh(tp=4), TP, None, {}),
        (pr.Mesh(tp=3), TP, None, {}),
        (pr.Mesh(pp=2), {}, Pipelined(micro_batches=2), {}),
        (pr.Mesh(dp=1), {}, None, {}),
    ],
    [
        (pr.Mesh(dp=2, tp=2), TP, None, {}),
        (pr.Mesh(dp=2), {}, None, {"dp": Zero(3)}),
        (pr.Mesh(dp=2, pp=2), {}, Pipelined(micro_batches=2), {}),
    ],
    [(pr.Mesh(dp=4), {}, None, {"dp": Zero(2)}), (pr.Mesh(dp=3), {}, None, {"dp": Zero(1)}), (pr.Mesh(dp=1, tp=2), TP, None, {})],
]


@pytest.mark.parametrize("layouts", RELAID)
def test_a_checkpoint_is_resumed_on_other_meshes(layouts: list[Any], tmp_path: Any) -> None:
    """The optimizer's state goes with the weights; batches of all workers together are the same."""
    runs = []
    for number, (mesh, names, pipeline, strategy) in enumerate(layouts):
        runs.append(
            pr.run(
                partial(train_saving, until=number + 2),
                mesh=mesh,
                cut=pr.Cut(names, pipeline=pipeline),
                strategy=strategy or "allreduce",
                on=pr.Simulator(),
                checkpoints=pr.Checkpoints(tmp_path / "saved", resume=number > 0, override=["data"] if number else ()),
            )
        )
    whole = pr.run(
        partial(train_saving, until=len(layouts) + 1), mesh=pr.Mesh(dp=1), on=pr.Simulator(), checkpoints=pr.Checkpoints(tmp_path / "other")
    )
    close(runs[-1].weights, whole.weights)
    assert runs[-1].summary.samples == whole.summary.samples
