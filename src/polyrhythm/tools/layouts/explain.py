"""What each rank of a layout holds and sends in one training step, found before anything runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import product
from typing import Any

import torch
from torch import Tensor, nn

from polyrhythm.core.simulator import Instant, Simulator
from polyrhythm.core.training.layouts import Strategies, given_partition, given_strategy
from polyrhythm.errors import CompositionError
from polyrhythm.partition.cut import Cut
from polyrhythm.partition.explained import RankStep, Subject, rank_step
from polyrhythm.partition.layout import MeshLayout
from polyrhythm.partition.mesh import Mesh
from polyrhythm.partition.pipeline.values import rows_of
from polyrhythm.tools.layouts.exchange_trial import StepTraffic, traffic
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
    """What each rank of one replica holds and sends in one training step of `pr.run(mesh=, cut=, strategy=)`.

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
        with _noted(refused, "the cut"):
            steps = steps_of_ranks(Subject(make, inputs, torch.empty(rows_of(inputs)), lambda found, _: loss(found), optimizer), layout)
        if not refused:
            with _noted(refused, "the strategy"):
                ranks = tuple(_explained(steps, layout, exchanged(steps, layout, chosen, (), Simulator(network=Instant()))))
    return LayoutExplanation(mesh, ranks, name, refused[0] if refused else None)


@contextmanager
def _noted(refused: list[LayoutRefusal], what: str) -> Iterator[None]:
    """Note a refusal that is no error of the caller's."""
    try:
        yield
    except CompositionError as problem:
        refused.append(LayoutRefusal(what, str(problem)))


def steps_of_ranks(subject: Subject, layout: MeshLayout) -> dict[tuple[int, ...], RankStep]:
    """The step of each rank of a replica, by its coordinates along `divided(layout)`."""
    sizes = divided(layout)
    every = product(*(range(size) for size in sizes.values()))
    return {at: rank_step(subject, layout.cut, layout.zero, sizes, dict(zip(sizes, at, strict=True))) for at in every}


def divided(layout: MeshLayout) -> dict[str, int]:
    """The axes along which ranks hold different things, and their sizes."""
    return {name: size for name, size in layout.mesh.axes if name in layout.cut.axes or name in layout.zero}


def coordinates_of(layout: MeshLayout) -> list[tuple[int, ...]]:
    """The coordinates of each worker along `divided(layout)`."""
    places = [place for place, name in enumerate(layout.mesh.names) if name in divided(layout)]
    every = product(*(range(size) for _, size in layout.mesh.axes))
    return [tuple(at[place] for place in places) for at in every]


def exchanged(
    steps: Mapping[tuple[int, ...], RankStep], layout: MeshLayout, strategy: Any, seconds: tuple[float, ...], on: Simulator
) -> StepTraffic:
    """What the strategy among the replicas of a layout sends and takes; `seconds` are those that each worker computes."""
    shapes = tuple(tuple(steps[at].shapes.values()) for at in coordinates_of(layout))
    return traffic(strategy, layout.shape, shapes, seconds or (0.0,) * len(shapes), on)


def _explained(steps: Mapping[tuple[int, ...], RankStep], layout: MeshLayout, found: StepTraffic) -> Iterator[ExplainedRank]:
    names, workers = list(divided(layout)), coordinates_of(layout)
    for at, step in steps.items():
        places = [rank for rank, other in enumerate(workers) if other == at]
        kept, sent = (max(each[rank] for rank in places) for each in (found.kept, found.nbytes))
        memory = {**step.memory, "exchange": round(kept)}
        yield ExplainedRank(
            dict(zip(names, at, strict=True)), step.placements, memory, step.peak + round(kept), step.calls, step.nbytes, sent, step.flops
        )
