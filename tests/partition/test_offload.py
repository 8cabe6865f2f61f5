"""Laws of offloading: the bits of a run without, never more in memory than the budget, and no more loads than by another choice."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

import polyrhythm as pr
from polyrhythm.errors import CompositionError, WorkloadError
from polyrhythm.partition.offload import FurthestUse, LeastRecentUse, Offload
from polyrhythm.partition.offload import offload as module
from polyrhythm.partition.offload.mapped import MappedVector
from polyrhythm.partition.offload.residence import Residence
from polyrhythm.partition.pipeline import Pipelined
from polyrhythm.partition.tensor_parallel.columns import Columns, Rows
from polyrhythm.partition.zero import Zero

WIDTH, LAYERS, STEPS, ROWS = 48, 10, 4, 4
BUDGET = 60_000


def net() -> nn.Sequential:
    torch.manual_seed(1)
    layers = [each for _ in range(LAYERS) for each in (nn.Linear(WIDTH, WIDTH), nn.Tanh())]
    return nn.Sequential(*layers, nn.Linear(WIDTH, 3))


def trained_by(kind: type[torch.optim.Optimizer], **options: Any) -> Any:
    def train(worker: pr.Worker) -> None:
        model = net()
        optimizer: torch.optim.Optimizer = kind(model.parameters(), lr=0.01, **options)  # type: ignore[call-arg]
        model, optimizer = worker.attach(model, optimizer, loss=F.mse_loss)
        x = torch.randn(ROWS, WIDTH, generator=torch.Generator().manual_seed(worker.replica))
        for _ in worker.range(STEPS):
            worker.count(ROWS if worker.counts_samples else 0)
            optimizer.zero_grad()
            worker.train_step(x, x[:, :3].sin())
            optimizer.step()

    return train


TRAINED: list[Any] = [trained_by(torch.optim.Adam), trained_by(torch.optim.SGD, momentum=0.9, foreach=False)]


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The chunks of each worker."""
    found: list[Any] = []
    begin = module.OffloadedVectors.__init__

    def noted(self: Any, *args: Any) -> None:
        begin(self, *args)
        found.append(self)

    monkeypatch.setattr(module.OffloadedVectors, "__init__", noted)
    return found


@pytest.mark.parametrize("train", TRAINED)
@pytest.mark.parametrize("eviction", [FurthestUse(), LeastRecentUse()])
@pytest.mark.parametrize(
    ("mesh", "names", "pipeline", "strategy"),
    [
        (pr.Mesh(dp=2), {}, None, "allreduce"),
        (pr.Mesh(dp=2), {}, None, "diloco"),
        (pr.Mesh(dp=2, tp=2), {"2": Columns(), "4": Rows()}, None, "allreduce"),
        (pr.Mesh(dp=2), {}, None, {"dp": Zero(3)}),
        (pr.Mesh(dp=2), {}, None, {"dp": Zero(1)}),
        (pr.Mesh(pp=2), {}, Pipelined(micro_batches=2), "allreduce"),
    ],
)
def test_bits_are_those_without_within_the_budget(
    made: list[Any], train: Any, eviction: Any, mesh: pr.Mesh, names: Any, pipeline: Any, strategy: Any, tmp_path: Path
) -> None:
    value = Offload(budget=BUDGET, directory=str(tmp_path), chunk=4096, eviction=eviction)
    run = pr.run(train, mesh=mesh, cut=pr.Cut(names, pipeline, value), strategy=strategy, on=pr.Simulator())
    plain = pr.run(train, mesh=mesh, cut=pr.Cut(names, pipeline), strategy=strategy, on=pr.Simulator())
    assert run.summary.weights_sha256 == plain.summary.weights_sha256
    assert len(made) == mesh.workers
    for each in made:
        assert 0 < each.resident.peak <= BUDGET
        assert each.resident.moved["dropped"] > 0
    assert not list(tmp_path.iterdir())


def test_the_trace_loads_less_than_the_last_use(made: list[Any]) -> None:
    for eviction in (FurthestUse(), LeastRecentUse()):
        pr.run(TRAINED[0], mesh=pr.Mesh(dp=1), cut=pr.Cut(offload=Offload(BUDGET, chunk=4096, eviction=eviction)), on=pr.Simulator())
    traced, recent = (each.resident.moved["loaded"] for each in made)
    assert traced < recent


def test_processes_have_the_same_bits() -> None:
    cut = pr.Cut(offload=Offload(BUDGET, chunk=4096))
    runs = [pr.run(TRAINED[0], mesh=pr.Mesh(dp=2), cut=cut, on=on) for on in (pr.Simulator(), pr.Processes())]
    assert runs[0].summary.weights_sha256 == runs[1].summary.weights_sha256


@given(st.lists(st.integers(0, 7), min_size=1, max_size=30), st.integers(1, 8))
@settings(max_examples=60, deadline=None)
def test_from_the_second_step_on_no_other_choice_loads_less(uses: list[int], places: int) -> None:
    loads = []
    for eviction in (FurthestUse(), LeastRecentUse()):
        inside = set[Any]()

        def load(key: Any, inside: set[Any] = inside) -> int:
            inside.add(key)
            assert len(inside) <= places
            return 1

        residence = Residence(places, eviction, load, inside.discard)
        loaded = []
        for _ in range(5):
            for use in uses:
                residence.use([(("weights", use), 1)])
            residence.step_ends()
            loaded.append(residence.moved["loaded"])
        loads.append([each - loaded[0] for each in loaded])
    assert all(traced <= recent for traced, recent in zip(*loads, strict=True))


def test_what_was_dropped_is_not_in_memory_and_still_there() -> None:
    vector = MappedVector(1 << 20, torch.float32, None)
    vector.values.copy_(torch.arange(1 << 20))
    assert resident(vector.values) >= 4 << 20
    vector.drop(0, 2 << 20)
    assert resident(vector.values) <= 2 << 20
    assert torch.equal(vector.values, torch.arange(1 << 20, dtype=torch.float32))


def resident(values: Tensor) -> int:
    """The bytes of the mapping in which a tensor lies that are in this process's memory."""
    text = Path("/proc/self/smaps").read_text()
    for start, end, rest in re.findall(r"^([0-9a-f]+)-([0-9a-f]+) (.*?)(?=^[0-9a-f]+-|\Z)", text, re.M | re.S):
        if int(start, 16) <= values.data_ptr() < int(end, 16):
            return int(re.findall(r"Rss:\s+(\d+) kB", rest)[0]) * 1024
    raise AssertionError("it is in some mapping")


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(CompositionError, match="is no memory"):
        Offload(0)
    with pytest.raises(CompositionError, match="larger than Offload's budget"):
        pr.run(TRAINED[0], mesh=pr.Mesh(dp=1), cut=pr.Cut(offload=Offload(5000, chunk=4096)), on=pr.Simulator())
    with pytest.raises(WorkloadError, match="are used at once"):
        pr.run(TRAINED[0], mesh=pr.Mesh(dp=1), cut=pr.Cut(offload=Offload(20000, chunk=4096)), on=pr.Simulator())


def test_a_run_resumes_from_what_was_in_the_file(tmp_path: Path) -> None:
    def saving(worker: pr.Worker) -> None:
        model = net()
        optimizer: torch.optim.Optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        model, optimizer = worker.attach(model, optimizer)
        for step in worker.range(STEPS):
            worker.count(ROWS)
            optimizer.zero_grad()
            model(torch.ones(ROWS, WIDTH)).square().mean().backward()
            optimizer.step()
            if step == 1:
                worker.save()

    arguments: dict[str, Any] = {"mesh": pr.Mesh(dp=2), "cut": pr.Cut(offload=Offload(BUDGET, chunk=4096)), "on": pr.Simulator()}
    run = pr.run(saving, checkpoints=pr.Checkpoints(tmp_path), **arguments)
    [kept] = tmp_path.glob("step-*")
    again = pr.run(saving, checkpoints=pr.Checkpoints(resume=kept), **arguments)
    assert again.summary.weights_sha256 == run.summary.weights_sha256
