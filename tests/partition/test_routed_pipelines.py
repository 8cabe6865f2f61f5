"""Laws of micro-batches that take routes through replicas of stages: whatever the routes, a run trains as it does without them."""

from __future__ import annotations

import time
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn

import polyrhythm as pr
from polyrhythm.errors import CompositionError, WorkloadError
from polyrhythm.partition.counted_axis import CountedAxis
from polyrhythm.partition.group_axis import GroupAxis
from polyrhythm.partition.pipeline import (
    Activations,
    AroundLost,
    ByMeasuredSpeed,
    BySpeed,
    DelayedPipeline,
    Delta,
    GPipe,
    Interleaved,
    OneForwardOneBackward,
    Pipelined,
    RandomRoutes,
    Recompute,
    ZeroBubble,
)
from polyrhythm.partition.place import Place
from polyrhythm.partition.tensor_parallel.dropout import DropByPlace
from polyrhythm.partition.zero.zero import Zero

from .pipelines import OBJECTIVE, Language, mean, sample
from .ranks import Program, axes_of, close

MICRO, ROWS, STEPS, LAYERS = 3, 7, 3, 4


def plans(stages: int, replicas: int) -> list[Any]:
    speeds = tuple(tuple(1.0 + (stage + 2 * replica) % 3 for replica in range(replicas)) for stage in range(stages))
    lost = frozenset((stage, stage % replicas) for stage in range(stages))
    return [
        AroundLost(),
        AroundLost(frozenset({(stages - 1, 0)})),
        AroundLost(lost),
        BySpeed(speeds),
        ByMeasuredSpeed(1),
        RandomRoutes(3),
    ]


def on_seats(program: Program, **sizes: int) -> list[Any]:
    """What the program returns at each seat of a mesh of two axes, in virtual time."""
    found: dict[int, Any] = {}
    outer, inner = sizes

    def main() -> None:
        dist.init_process_group("polyrhythm")
        axes, joint = axes_of(sizes), GroupAxis("joint", dist.group.WORLD)
        place = Place(axes, replica=axes["dp"].index, joints={(outer, inner): joint}, now=time.perf_counter)
        found[dist.get_rank()] = program(place, dist.get_rank())
        dist.destroy_process_group()

    pr.simulate(main, ranks=torch.Size(sizes.values()).numel(), on=pr.Simulator())
    return [found[rank] for rank in sorted(found)]


class Noisy(Language):
    """With dropout in the middle."""

    def __init__(self) -> None:
        super().__init__(LAYERS, tied=True)
        self.layers[0] = nn.Sequential(nn.Linear(6, 6), nn.Dropout(0.3))


def trained(pipelined: Pipelined) -> Program:
    """Losses, outputs and mean gradients of a seat after some steps."""

    def program(place: Place, rank: int) -> Any:
        pipeline, axis = pipelined.local(Noisy(), place, OBJECTIVE), place.axis("dp")
        parameters = dict(pipeline.module.named_parameters())
        optimizer = torch.optim.SGD(parameters.values(), lr=0.3, momentum=0.5)
        losses = []
        for step in range(STEPS):
            optimizer.zero_grad()
            losses.append(pipeline.step(*sample(10 * step + axis.index, ROWS)))
            for each in parameters.values():
                each.grad = axis.all_reduce(torch.zeros_like(each) if each.grad is None else each.grad) / axis.size
            optimizer.step()
        pipeline.module.eval()
        losses.append(pipeline.evaluate(*sample(axis.index, ROWS)))
        return torch.stack(losses), pipeline.outputs(sample(axis.index, ROWS)[0]), {k: v.detach() for k, v in parameters.items()}

    return program


MESHES = [{"dp": 2, "pp": 2}, {"pp": 3, "dp": 2}, {"dp": 3, "pp": 1}]


@pytest.mark.parametrize(
    "way", [GPipe(), OneForwardOneBackward(), OneForwardOneBackward((3, 1, 1)), Recompute(), Activations(4, 8)], ids=repr
)
@pytest.mark.parametrize("mesh", MESHES, ids=repr)
def test_any_routes_train_as_none_do(mesh: dict[str, int], way: Any) -> None:
    """To rounding; without a lost replica each is its own, and has the same bits."""
    key = {Recompute: "memory", Activations: "boundary"}.get(type(way), "schedule")
    if way == OneForwardOneBackward((3, 1, 1)) and mesh["pp"] != 3:
        way = GPipe()
    expected = on_seats(trained(Pipelined(micro_batches=MICRO, **{key: way})), **mesh)
    for number, plan in enumerate(plans(mesh["pp"], mesh["dp"])):
        found = on_seats(trained(Pipelined(micro_batches=MICRO, routes=plan, **{key: way})), **mesh)
        for (losses, outputs, weights), (their_losses, their_outputs, their_weights) in zip(found, expected, strict=True):
            close(losses, their_losses)
            close(outputs, their_outputs, 1e-4, 1e-4)
            for name, value in weights.items():
                close(value, their_weights[name])
                assert number or torch.equal(value, their_weights[name]), name


def train(worker: pr.Worker) -> None:
    """Each replica its own samples; the micro-batches go through others too."""
    model: nn.Module = Noisy()
    optimizer: torch.optim.Optimizer = torch.optim.SGD(model.parameters(), lr=0.3, momentum=0.5)
    model, optimizer = worker.attach(model, optimizer, loss=mean)
    for step in worker.range(STEPS):
        worker.count(ROWS if worker.counts_samples else 0)
        optimizer.zero_grad()
        loss = worker.train_step(*sample(10 * step + worker.replica, ROWS))
        optimizer.step()
        worker.report(loss=loss.item())


def run_of(plan: Any, on: Any, strategy: Any = "allreduce", **sizes: int) -> pr.Run:
    cut = pr.Cut(pipeline=Pipelined(micro_batches=MICRO, routes=plan))
    return pr.run(train, mesh=pr.Mesh(**sizes), cut=cut, strategy=strategy, on=on)


@pytest.mark.parametrize("sizes", [{"dp": 2, "pp": 2}, {"site": 2, "pp": 2, "dp": 2}], ids=repr)
def test_runs_with_routes_have_the_weights_of_runs_without(sizes: dict[str, int]) -> None:
    expected = run_of(None, pr.Simulator(), **sizes)
    for plan in plans(sizes["pp"], sizes["dp"]):
        found = run_of(plan, pr.Simulator(), **sizes)
        assert found.summary.samples == expected.summary.samples
        for name, value in found.weights.items():
            close(value, expected.weights[name])


@pytest.mark.parametrize("plan", [AroundLost(frozenset({(0, 1)})), RandomRoutes(3)], ids=repr)
def test_processes_give_the_same_bits(plan: Any) -> None:
    runs = [run_of(plan, on, dp=2, pp=2) for on in (pr.Simulator(), pr.Processes())]
    assert runs[0].summary.weights_sha256 == runs[1].summary.weights_sha256


@pytest.mark.parametrize("strategy", ["local-sgd", "gossipgrad", "diloco"])
def test_random_routes_go_with_replicas_that_differ(strategy: str) -> None:
    """Each takes as many micro-batches at each stage, so that steps of its own are of the right size."""
    first, again = (run_of(RandomRoutes(1), pr.Simulator(seed=2), strategy, dp=4, pp=2) for _ in range(2))
    other = run_of(None, pr.Simulator(seed=2), strategy, dp=4, pp=2)
    assert first.summary.weights_sha256 == again.summary.weights_sha256 != other.summary.weights_sha256


@pytest.mark.parametrize("strategy", ["local-sgd", "gossipgrad", {"dp": "diloco"}])
@pytest.mark.parametrize("plan", [AroundLost(frozenset({(0, 1)})), BySpeed(((1.0, 2.0), (1.0, 1.0)))], ids=repr)
def test_unequal_shares_are_refused_where_replicas_step_by_themselves(plan: Any, strategy: Any) -> None:
    with pytest.raises(CompositionError, match="routes that give each as much"):
        run_of(plan, pr.Simulator(), strategy, dp=2, pp=2)


def test_unequal_shares_go_with_local_steps_along_another_axis() -> None:
    run_of(AroundLost(frozenset({(0, 1)})), pr.Simulator(), {"site": "diloco", "dp": "allreduce"}, site=2, dp=2, pp=2)


REFUSED = {
    "one stage and an empty pipeline": {"schedule": Interleaved(2)},
    "empty pipeline after each step": {"schedule": DelayedPipeline()},
    "whole backward passes": {"schedule": ZeroBubble()},
    "comes another way": {"boundary": Delta(4, 8)},
    "has no clock": {"routes": ByMeasuredSpeed()},
    "replicas of stage 1 are lost": {"routes": AroundLost(frozenset({(1, 0), (1, 1)}))},
}


@pytest.mark.parametrize("reason", REFUSED)
def test_what_has_no_routes_says_so(reason: str) -> None:
    axes = {"pp": CountedAxis("pp", 2, 0), "dp": CountedAxis("dp", 2, 0)}
    place = Place(axes, joints={("pp", "dp"): CountedAxis("joint", 4, 0)})
    pipelined = Pipelined(**{"routes": RandomRoutes(), **REFUSED[reason]})
    assert reason in pipelined.refusal(Language(LAYERS, False), place)
    assert "no axis is along both" in Pipelined(routes=RandomRoutes()).refusal(Language(LAYERS, False), Place(axes))


def test_replicas_that_divide_a_model_have_no_routes() -> None:
    for strategy, sizes in (({"dp": Zero(1)}, {"dp": 2, "pp": 2}), ("allreduce", {"replica": 2, "pp": 2})):
        with pytest.raises(CompositionError, match="name a data axis without Zero"):
            run_of(RandomRoutes(), pr.Simulator(), strategy, **sizes)


def test_dropout_by_place_has_no_routes() -> None:
    cut = pr.Cut({"layers.0.1": DropByPlace({0: ("dp",)})}, pipeline=Pipelined(micro_batches=MICRO, routes=RandomRoutes()))
    with pytest.raises(CompositionError, match="leave dropouts as they are"):
        pr.run(train, mesh=pr.Mesh(dp=2, pp=2), cut=cut, on=pr.Simulator())


def test_batches_of_other_sizes_or_too_few_samples_are_refused() -> None:
    def program(rows: Any) -> Program:
        def step(place: Place, rank: int) -> Any:
            pipeline = Pipelined(micro_batches=MICRO, routes=RandomRoutes()).local(Language(LAYERS, False), place, OBJECTIVE)
            return pipeline.step(*sample(0, rows(place.axis("dp").index)))

        return step

    with pytest.raises(WorkloadError, match="leave out an incomplete last one"):
        on_seats(program(lambda replica: ROWS + replica), dp=2, pp=2)
    with pytest.raises(CompositionError, match="fewer than micro_batches=3"):
        on_seats(program(lambda replica: 2), dp=2, pp=2)
