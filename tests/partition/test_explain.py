"""What `explain` says of a layout is what a run of it holds and sends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import partial
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed._tools.mem_tracker import MemTracker

import polyrhythm as pr
from polyrhythm.core.kernel.events import Sent
from polyrhythm.partition import (
    Activations,
    Columns,
    DelayedPipeline,
    GPipe,
    MeanLoss,
    OneForwardOneBackward,
    Pipelined,
    Recompute,
    Rows,
    Zero,
)
from polyrhythm.partition.axis import Axis
from polyrhythm.partition.counted_axis import CountedAxis
from polyrhythm.partition.explained import Subject, rank_step
from polyrhythm.partition.place import Place
from polyrhythm.workloads.gpt import Gpt, GptSize

from .ranks import on_ranks

CUT = pr.Cut({"1": Columns(), "3": Rows()})
MOMENTUM = partial(torch.optim.SGD, lr=0.1, momentum=0.9)
ADAM = partial(torch.optim.AdamW, foreach=False)


def make() -> nn.Module:
    return nn.Sequential(nn.Linear(5, 6), nn.Linear(6, 11), nn.Tanh(), nn.Linear(11, 6))


def square(output: Any) -> Tensor:
    found: Tensor = output.square().sum()
    return found


def of_targets(output: Any, _: Any) -> Tensor:
    return square(output)


PIPELINES = [
    Pipelined(micro_batches=3),
    Pipelined(micro_batches=3, schedule=GPipe()),
    Pipelined(micro_batches=2, boundary=Activations(4, 8)),
    Pipelined(micro_batches=3, memory=Recompute()),
    Pipelined(micro_batches=3, schedule=DelayedPipeline()),
]


def program(cut: pr.Cut, zero: Mapping[str, Zero], sizes: Mapping[str, int], place: Place, rank: int) -> Any:
    """The bytes of the third step at a rank of a run: outlines of what crosses cuts have been sent, and late pipelines are full."""
    torch.manual_seed(0)
    model = make()
    cut.apply(model, place)
    pipeline = None if cut.pipeline is None else cut.pipeline.local(model, place, MeanLoss(of_targets))
    units = [unit for name, stage in zero.items() for unit in stage.shard(model, place.axes[name])[0]]
    for _ in range(3):
        for axis in place.axes.values():
            axis.calls.clear()
            axis.nbytes.clear()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
        if pipeline is None:
            square(model(torch.ones(6, 5))).backward()  # type: ignore[no-untyped-call]
        else:
            pipeline.step(torch.ones(6, 5), torch.ones(6))
        for unit in units:
            unit.complete()
        optimizer.step()
        optimizer.zero_grad()
    return {name: dict(axis.calls) for name, axis in place.axes.items()}, {name: dict(axis.nbytes) for name, axis in place.axes.items()}


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_bytes_and_parameters_are_those_of_ranks(ranks: int) -> None:
    found = pr.explain(pr.Mesh(dp=2, tp=ranks), CUT, make, torch.empty(6, 5), square, MOMENTUM)
    for rank, (calls, nbytes) in zip(found.ranks, on_ranks(partial(program, CUT, {}, {"tp": ranks}), tp=ranks), strict=True):
        assert (rank.calls, rank.nbytes) == (calls, nbytes)
        assert rank.memory["parameters"] == rank.memory["gradients"] == rank.memory["optimizer"]


@pytest.mark.parametrize("pipelined", PIPELINES, ids=repr)
def test_bytes_of_stages_are_those_of_ranks(pipelined: Pipelined) -> None:
    cut = pr.Cut(pipeline=pipelined)
    found = pr.explain(pr.Mesh(pp=2), cut, make, torch.empty(6, 5), square, MOMENTUM)
    for rank, (calls, nbytes) in zip(found.ranks, on_ranks(partial(program, cut, {}, {"pp": 2}), pp=2), strict=True):
        assert (rank.calls, rank.nbytes) == (calls, nbytes)


@pytest.mark.parametrize("stage", [1, 2, 3])
def test_bytes_of_shared_state_are_those_of_ranks(stage: int) -> None:
    zero = {"dp": Zero(stage)}
    found = pr.explain(pr.Mesh(dp=2, tp=2), CUT, make, torch.empty(6, 5), square, MOMENTUM, strategy=zero)
    for rank, (calls, nbytes) in zip(found.ranks, on_ranks(partial(program, CUT, zero, {}), dp=2, tp=2), strict=True):
        assert (rank.calls, rank.nbytes) == (calls, nbytes)


SIZE = GptSize(31, 16, layers=3, width=32, heads=4)
SAMPLES = 24
RULES = {"heads": "tp", "mlp": "tp"}
LAYOUTS: list[tuple[pr.Cut, Mapping[str, Zero], Mapping[str, int]]] = [
    (pr.Cut(), {}, {}),
    (pr.Cut.by_rules(Gpt(SIZE), RULES), {}, {"tp": 2}),
    *((pr.Cut(), {"dp": Zero(stage)}, {"dp": 2}) for stage in (1, 2, 3)),
    (pr.Cut(pipeline=Pipelined(micro_batches=4)), {}, {"pp": 2}),
    (pr.Cut(pipeline=Pipelined(micro_batches=4, schedule=GPipe())), {}, {"pp": 2}),
    (pr.Cut(pipeline=Pipelined(micro_batches=4, memory=Recompute())), {}, {"pp": 2}),
    (pr.Cut.by_rules(Gpt(SIZE), RULES, Pipelined(micro_batches=2)), {"dp": Zero(2)}, {"pp": 2, "tp": 2, "dp": 2}),
]


def of_symbols(scores: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(scores.flatten(0, 1), targets.flatten())


def tracked(cut: pr.Cut, zero: Mapping[str, Zero], axes: Mapping[str, Axis]) -> int:
    """By torch's `MemTracker`, with memory: the most bytes of the passes of a first step."""
    model, place = Gpt(SIZE), Place(axes)
    cut.apply(model, place)
    symbols = torch.zeros(SAMPLES, 16, dtype=torch.int64)
    pipeline = None if cut.pipeline is None else cut.pipeline.local(model, place, MeanLoss(of_symbols), symbols)
    for name, stage in zero.items():
        stage.shard(model, axes[name])
    tracker = MemTracker()
    tracker._mod_tracker.register_user_hooks = lambda *hooks: None  # what it counts by module cannot be called for each micro-batch
    tracker.track_external(model, symbols)
    with tracker:
        if pipeline is None:
            of_symbols(model(symbols), symbols).backward()  # type: ignore[no-untyped-call]
        else:
            pipeline.step(symbols, symbols)
    [found] = tracker.get_tracker_snapshot("peak").values()
    return next(nbytes for kind, nbytes in found.items() if str(kind).endswith("Total"))


@pytest.mark.parametrize(("cut", "zero", "sizes"), LAYOUTS, ids=str)
def test_memory_is_what_torch_tracks(cut: pr.Cut, zero: Mapping[str, Zero], sizes: Mapping[str, int]) -> None:
    """The most at once within 1 %; it is in the passes, of whose memory activations have most."""
    symbols = torch.empty(SAMPLES, 16, dtype=torch.int64, device="meta")
    subject = Subject(partial(Gpt, SIZE), symbols, symbols, of_symbols, ADAM)
    for rank in range(1 if cut.pipeline is not None or not sizes else 2):  # MemTracker keeps what other stages have sent
        at = dict.fromkeys(sizes, rank)
        found = rank_step(subject, cut, zero, sizes, at)
        assert sum(found.memory.values()) >= found.peak
        expected = tracked(cut, zero, {name: CountedAxis(name, size, at[name]) for name, size in sizes.items()})
        assert found.peak - found.memory["optimizer"] == pytest.approx(expected, rel=0.01)


def test_a_stage_keeps_as_many_micro_batches_as_its_schedule_has_under_way() -> None:
    def kept(schedule: Any, rank: int) -> int:
        cut = pr.Cut(pipeline=Pipelined(micro_batches=8, schedule=schedule))
        found = pr.explain(
            pr.Mesh(pp=2), cut, lambda: nn.Sequential(*(nn.Linear(50, 50) for _ in range(4))), torch.empty(800, 50), square, ADAM
        )
        return found.ranks[rank].memory["activations"]

    micro = 100 * 50 * 4  # the input of the second layer; that of the first is the batch's
    assert kept(GPipe(), 0) - kept(OneForwardOneBackward(), 0) == pytest.approx(6 * micro, rel=0.1)
    assert kept(OneForwardOneBackward((4, 1)), 0) - kept(OneForwardOneBackward(), 0) == pytest.approx(2 * micro, rel=0.1)


def sends(mesh: pr.Mesh, cut: pr.Cut, make: Any, steps: int) -> Counter[tuple[str, bool]]:
    """The bytes of a run that each worker sends, those along axes of the cut and others."""

    def train(worker: pr.Worker) -> None:
        model = make()
        model, optimizer = worker.attach(model, MOMENTUM(model.parameters()), loss=F.mse_loss)
        for _ in worker.range(steps):
            optimizer.zero_grad()
            worker.count(64)
            worker.train_step(torch.ones(64, 64), torch.zeros(64, 64))
            optimizer.step()

    run = pr.run(train, mesh=mesh, cut=cut, on=pr.Simulator(record_sends=True))
    found = Counter[tuple[str, bool]]()
    for each in run.outcome.events:
        if isinstance(each, Sent):
            found[each.actor, each.topic.startswith("axis/")] += each.nbytes
    return found


def test_a_run_sends_what_was_explained() -> None:
    """With headers, and with what is compared now and then."""
    mesh, cut = pr.Mesh(dp=2, pp=2), pr.Cut(pipeline=Pipelined(micro_batches=2))

    def wide() -> nn.Module:
        return nn.Sequential(*(nn.Linear(64, 64) for _ in range(4)))

    explained = pr.explain(mesh, cut, wide, torch.empty(64, 64), lambda y: y.square().mean(), MOMENTUM).ranks
    short, long = (sends(mesh, cut, wide, steps) for steps in (9, 15))
    for rank in range(4):
        along, among = ((long[f"worker/{rank}", axis] - short[f"worker/{rank}", axis]) / 6 for axis in (True, False))
        assert along == pytest.approx(sum(explained[rank % 2].nbytes["pp"].values()), rel=0.03)
        assert among == pytest.approx(explained[rank % 2].exchanged, rel=0.01)


def test_local_steps_send_less_by_their_period() -> None:
    wide = partial(nn.Linear, 100, 100)
    exchanged = {
        period: pr.explain(pr.Mesh(dp=4), pr.Cut(), wide, torch.empty(2, 100), square, MOMENTUM, pr.systems.find("diloco", period=period))
        for period in (1, 5)
    }
    assert exchanged[1].ranks[0].exchanged == pytest.approx(2 * 3 / 4 * 4 * 10100, rel=0.02)
    assert exchanged[5].ranks[0].exchanged == pytest.approx(exchanged[1].ranks[0].exchanged / 5, rel=0.02)
    assert exchanged[5].ranks[0].memory["exchange"] == 2 * 4 * 10100, "the weights of the last exchange, and the outer momentum"


def test_shared_state_takes_less() -> None:
    wide = partial(nn.Linear, 100, 100)
    roles = [
        pr.explain(pr.Mesh(dp=4), pr.Cut(), wide, torch.empty(2, 100), square, ADAM, {"dp": strategy}).ranks[0].memory
        for strategy in ("allreduce", Zero(1), Zero(2), Zero(3))
    ]
    whole = 4 * 10100
    assert [each["gradients"] // whole for each in roles[:1]] == [1]
    assert roles[3]["parameters"] == roles[2]["gradients"] == whole / 4
    assert roles[1]["optimizer"] == pytest.approx(roles[0]["optimizer"] / 4, abs=16)


def test_several_inputs_are_a_tuple() -> None:
    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one = nn.Linear(3, 2)

        def forward(self, left: Tensor, right: Tensor) -> Tensor:
            return self.one(left) * right

    found = pr.explain(pr.Mesh(dp=1), pr.Cut(), Both, (torch.empty(4, 3), torch.empty(4, 2)), square, MOMENTUM)
    assert found.ranks[0].flops == 2 * 2 * 4 * 3 * 2


def test_models_larger_than_any_machine_are_explained() -> None:
    found = pr.explain(
        pr.Mesh(tp=2),
        pr.Cut({"1": Columns()}),
        lambda: nn.Sequential(nn.Identity(), nn.Linear(200_000, 250_000)),
        torch.empty(1, 200_000, device="meta"),
        torch.sum,
        MOMENTUM,
    )
    assert found.ranks[0].memory["parameters"] == 4 * 125_000 * 200_001
    assert "tp=1: parameters 100,000,500,000" in str(found)


@pytest.mark.parametrize(
    ("mesh", "cut", "message"),
    [
        (pr.Mesh(dp=2), CUT, "has no such axis"),
        (pr.Mesh(dp=-1, tp=2), CUT, "give the size of each axis"),
        (pr.Mesh(tp=2), pr.Cut({"2": Columns()}), "2 cannot be divided by"),
        (pr.Mesh(pp=9), pr.Cut(pipeline=Pipelined()), "4 steps cannot be 9 stages"),
        (pr.Mesh(tp=2), pr.Cut({"0": Columns()}), "^the cut: 1 does not fit what comes to it"),
    ],
)
def test_what_cannot_be_is_said(mesh: pr.Mesh, cut: pr.Cut, message: str) -> None:
    found = pr.explain(mesh, cut, make, torch.empty(3, 5), torch.sum, MOMENTUM)
    assert found.refused is not None
    assert not found.ranks
    with pytest.raises(AssertionError, match=message):
        raise AssertionError(str(found.refused))
    assert "cannot be" in str(found)


def test_strategies_that_do_not_fit_are_said() -> None:
    found = pr.explain(pr.Mesh(dp=2, tp=2), CUT, make, torch.empty(3, 5), torch.sum, MOMENTUM, strategy={"tp": "diloco"})
    assert found.refused is not None
    assert "'tp', which is not one of them" in found.refused.why
