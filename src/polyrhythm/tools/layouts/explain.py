"""What each rank of a layout holds and sends in one training step, found before anything runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from polyrhythm.core.kernel.group import workers
from polyrhythm.core.kernel.mesh import WorkerMesh
from polyrhythm.core.simulator import Instant, Simulator
from polyrhythm.core.strategy.strategy import Strategy
from polyrhythm.core.training.layouts import Strategies, given_partition, given_strategy
from polyrhythm.errors import CompositionError
from polyrhythm.partition.cut import Cut
from polyrhythm.partition.deferred import build
from polyrhythm.partition.explained import RankStep, Subject, rank_step
from polyrhythm.partition.layout import MeshLayout
from polyrhythm.partition.mesh import Mesh
from polyrhythm.partition.pipeline.parts_of_steps import PartsOfSteps
from polyrhythm.partition.pipeline.values import rows_of
from polyrhythm.tools.layouts.exchange_trial import ExchangedShape, StepTraffic, traffic
from polyrhythm.tools.layouts.explanation import ExplainedRank, LayoutExplanation, LayoutRefusal


def explain(
    mesh: Mesh,
    cut: Cut,
    make: Callable[[], nn.Module],
    inputs: Any,
    loss: Callable[[Any], Tensor],
    optimizer: Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer],
    strategy: Strategies = "allreduce",
) -> LayoutExplanation:
    """What each rank of one replica, or of all unequal ones, holds and sends in one training step of `pr.run(mesh=, cut=, strategy=)`.

    The model is never computed, so one of any size can be explained. `make` makes the whole model, `loss` is the mean loss of its output
    for a replica's batch of the shape of `inputs`, a tensor or a tuple of several. Of a pipeline, as many micro-batches are under way as
    its schedule has, and boundaries send what they write. What the `strategy` sends is counted in a run of its exchanges alone. What cannot
    be is no error: `refused` says what and why.

    Examples:
        >>> from functools import partial
        >>> from polyrhythm.partition.tensor_parallel.columns import Columns
        >>> adam = partial(torch.optim.Adam, foreach=False)
        >>> cut = Cut({"0": Columns()})
        >>> found = explain(Mesh(tp=2), cut, lambda: nn.Sequential(nn.Linear(4, 6)), torch.empty(2, 4), torch.sum, adam)
        >>> found.ranks[0].memory["parameters"], found.ranks[0].memory["optimizer"]
        (60, 128)
    """
    refused: list[LayoutRefusal] = []
    ranks: tuple[ExplainedRank, ...] = ()
    name = ""
    with _noted(refused, "the layout"):
        if mesh.workers is None:
            raise CompositionError(f"{mesh!r} has as many workers as there are: give the size of each axis.")
        layout, _ = given_partition(mesh, cut, strategy, None)
        chosen = given_strategy(strategy, layout)
        name = chosen.name
        assert isinstance(layout, MeshLayout), "there is a mesh"
        steps: dict[tuple[int, ...], RankStep] = {}
        subject = Subject(make, inputs, torch.empty(rows_of(inputs)), lambda found, _: loss(found), optimizer)
        with _noted(refused, "the cut"):
            steps = steps_of_ranks(subject, layout)
        if not refused:
            with _noted(refused, "the strategy"):
                ranks = tuple(_explained(steps, layout, exchanged(steps, layout, subject, chosen)))
    return LayoutExplanation(mesh, ranks, name, refused[0] if refused else None)


@contextmanager
def _noted(refused: list[LayoutRefusal], what: str) -> Iterator[None]:
    """Note a refusal that is no error of the caller's."""
    try:
        yield
    except CompositionError as problem:
        refused.append(LayoutRefusal(what, str(problem)))


def steps_of_ranks(subject: Subject, layout: MeshLayout) -> dict[tuple[int, ...], RankStep]:
    """The step of each rank that differs from others, by its coordinates along `differing(layout)`."""
    found: dict[tuple[int, ...], RankStep] = {}
    names = differing(layout)
    for own in dict.fromkeys(coordinates_of(layout)):
        at = dict(zip(names, own, strict=True))
        cut, sizes = _replica_of(layout, at)
        found[own] = rank_step(subject, cut, layout.zero, sizes, {name: at[name] for name in sizes})
    return found


def _replica_of(layout: MeshLayout, at: Mapping[str, int]) -> tuple[Cut, dict[str, int]]:
    """The cut of the replica of a rank at these coordinates, and the sizes of the axes that divide it."""
    cut, sizes, unequal = layout.cut, divided(layout), layout.shape.unequal
    if unequal is None or cut.pipeline is None:
        return cut, sizes
    mesh = mesh_of(layout)
    number = next(
        mesh.shares(each).rank for each in mesh.members if all(mesh.coordinate(each, name) == place for name, place in at.items())
    )
    own = replace(cut.pipeline, division=cut.pipeline.division.of_replica(number))
    return replace(cut, pipeline=own), {**sizes, unequal.name: unequal.lengths[number]}


def divided(layout: MeshLayout) -> dict[str, int]:
    """The axes along which a replica is divided, and their sizes."""
    return {name: size for name, size in layout.mesh.axes if name in layout.cut.axes or name in layout.zero}


def differing(layout: MeshLayout) -> tuple[str, ...]:
    """The axes along which ranks hold different things: those of replicas too, where these are divided unequally."""
    return tuple(name for name in layout.mesh.names if name in divided(layout) or layout.mesh.unequal)


def mesh_of(layout: MeshLayout) -> WorkerMesh:
    """The workers of a layout on its mesh."""
    assert layout.mesh.workers is not None, "its sizes are known"
    return layout.shape.mesh(workers(layout.mesh.workers), 0)


def coordinates_of(layout: MeshLayout) -> list[tuple[int, ...]]:
    """The coordinates of each worker along `differing(layout)`."""
    mesh, names = mesh_of(layout), differing(layout)
    return [tuple(mesh.coordinate(member, name) for name in names) for member in mesh.members]


def exchanged(steps: Mapping[tuple[int, ...], RankStep], layout: MeshLayout, subject: Subject, strategy: Strategy) -> StepTraffic:
    """What the strategy among the replicas of a layout sends, without a time for computing or lines."""
    mesh = mesh_of(layout)
    shapes = []
    for member, at in zip(mesh.members, coordinates_of(layout), strict=True):
        units = mesh.part_of_units(member)
        parts = PartsOfSteps.of(build(subject.make)[0], units) if units else None
        shapes.append(tuple(_exchanged(steps[at], parts)))
    return traffic(strategy, layout.shape, tuple(shapes), (0.0,) * len(shapes), Simulator(network=Instant()))


def _exchanged(step: RankStep, parts: PartsOfSteps | None) -> Iterator[ExchangedShape]:
    """What a rank exchanges: of unequal replicas its parts, without the copies of tied weights."""
    for name, shape in step.shapes.items():
        if parts is None:
            yield ExchangedShape(shape)
        elif not step.placements[name].copy_of:
            yield ExchangedShape(shape, parts.part(name))


def _explained(steps: Mapping[tuple[int, ...], RankStep], layout: MeshLayout, found: StepTraffic) -> Iterator[ExplainedRank]:
    names, every = differing(layout), coordinates_of(layout)
    for at, step in steps.items():
        places = [rank for rank, other in enumerate(every) if other == at]
        kept, sent = (max(each[rank] for rank in places) for each in (found.kept, found.nbytes))
        memory = {**step.memory, "exchange": round(kept)}
        yield ExplainedRank(
            dict(zip(names, at, strict=True)), step.placements, memory, step.peak + round(kept), step.calls, step.nbytes, sent, step.flops
        )
