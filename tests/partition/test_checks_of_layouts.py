"""`polyrhythm check` is silent on layouts that are right, and names what is wrong with one that is not."""

from __future__ import annotations

from functools import partial

import pytest
import torch
import torch.distributed as dist

import polyrhythm as pr
from polyrhythm.partition import MeanLoss
from polyrhythm.partition.norm import clip_gradients
from polyrhythm.partition.place import Place
from polyrhythm.partition.zero import Zero

from .layouts import BATCH, Drawn, Net, drawn, mean_square
from .ranks import axes_of

QUICK, ALL = 4, 60


def program(layout: Drawn, reduced: bool = True) -> None:
    """Steps of a random layout, written for torch.distributed; with one rank, those of one process."""
    dist.init_process_group("gloo")
    alone = dist.get_world_size() == 1
    sizes = {name: 1 if alone else size for name, size in layout.mesh.axes}
    place = Place(axes_of(sizes))
    data = [place.axis(name) for name in sizes if name not in layout.cut.axes]
    torch.manual_seed(0)
    model = Net(layout.width, layout.hidden, layout.tied)
    layout.cut.apply(model, place)
    pipeline = layout.cut.pipeline and layout.cut.pipeline.local(model, place, MeanLoss(mean_square))
    shared = [axis for axis in data if axis.size > 1 and isinstance(layout.strategy.get(axis.name), Zero)]
    units = [unit for axis in shared for unit in layout.strategy[axis.name].shard(model, axis)[0]]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    x = torch.randn(2 * BATCH, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    for batch in x.split(BATCH):
        for axis in data:
            batch = batch.chunk(axis.size)[axis.index]
        optimizer.zero_grad()
        for part in batch.chunk(layout.accumulated):
            if pipeline:
                pipeline.step(part, part.sin())
            else:
                mean_square(model(part), part.sin()).backward()
        for unit in units:
            unit.complete()
        for parameter in model.parameters():
            for axis in data:
                if reduced and axis not in shared and axis.size > 1 and parameter.grad is not None:
                    parameter.grad = axis.all_reduce(parameter.grad) / axis.size
        if layout.clip is not None:
            clip_gradients(list(model.parameters()), layout.clip, place.axes)
        optimizer.step()
    dist.destroy_process_group()


def ranks(layout: Drawn) -> int:
    found = layout.mesh.workers
    assert found is not None
    return found


@pytest.mark.parametrize("seed", [*range(QUICK), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(QUICK, ALL))])
def test_nothing_is_found_in_a_random_layout(seed: int) -> None:
    layout = drawn(seed)
    assert pr.check(partial(program, layout), ranks=ranks(layout)).findings == []


def test_gradients_that_are_not_summed_over_replicas_are_found() -> None:
    layout = next(found for found in map(drawn, range(100)) if dict(found.mesh.axes).get("site", 1) > 1 and found.cut.axes)
    assert pr.check(partial(program, layout, reduced=False), ranks=ranks(layout)).findings
