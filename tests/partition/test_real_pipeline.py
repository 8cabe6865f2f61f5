"""Pipelines on real processes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch_ranks

from polyrhythm.partition.pipeline.boundaries.quantized import Activations
from polyrhythm.partition.pipeline.boundaries.subspace import Subspace
from polyrhythm.partition.pipeline.delayed import DelayByDepth, DelayedPipeline
from polyrhythm.partition.pipeline.memory import Recompute
from polyrhythm.partition.pipeline.pipelined import Pipelined
from polyrhythm.partition.pipeline.schedules import GPipe, Interleaved, OneForwardOneBackward, ZeroBubble
from polyrhythm.partition.place import Place

from .pipelines import Language, alone, piped, together
from .ranks import axes_of, close, on_ranks

WAYS = {
    "GPipe": Pipelined(micro_batches=3, schedule=GPipe(), memory=Recompute()),
    "OneForwardOneBackward": Pipelined(micro_batches=4, schedule=OneForwardOneBackward()),
    "Interleaved": Pipelined(micro_batches=4, schedule=Interleaved(2)),
    "ZeroBubble": Pipelined(micro_batches=4, schedule=ZeroBubble()),
}
ROUGH = {
    "DelayedPipeline": Pipelined(micro_batches=2, schedule=DelayedPipeline(DelayByDepth(), look_ahead=0.5)),
    "Activations": Pipelined(micro_batches=3, boundary=Activations(4, 8)),
    "Subspace": Pipelined(micro_batches=3, boundary=Subspace(4)),
}
STEPS, LAYERS, RANKS = 3, 6, 3


def every_way(rank: int, ranks: int) -> dict[str, Any]:
    place = Place(axes_of({"pp": ranks}))
    found = {name: piped(way, Language(LAYERS, True), place, STEPS) for name, way in WAYS.items()}
    found |= {name: piped(way, Language(LAYERS, False), place, STEPS) for name, way in ROUGH.items()}
    dist.barrier()
    return found


@pytest.fixture(scope="module")
def found() -> list[dict[str, Any]]:
    return torch_ranks.run(every_way, RANKS)


@pytest.mark.parametrize("name", WAYS)
def test_a_pipeline_of_processes_trains_as_one(name: str, found: list[dict[str, Any]]) -> None:
    expected = alone(model := Language(LAYERS, True), STEPS)
    for each in found:
        close(torch.tensor(each[name][0]), torch.tensor(expected))
    for parameter, value in together([each[name][1] for each in found]).items():
        close(value, model.get_parameter(parameter).detach())


@pytest.mark.parametrize("name", ROUGH)
def test_what_one_process_does_not_compute_is_the_same_in_virtual_time(name: str, found: list[dict[str, Any]]) -> None:
    virtual = on_ranks(lambda place, rank: piped(ROUGH[name], Language(LAYERS, False), place, STEPS), pp=RANKS)
    for each, (losses, parameters) in zip(found, virtual, strict=True):
        torch.testing.assert_close(torch.tensor(each[name][0]), torch.tensor(losses), equal_nan=True)
        for parameter, (value, _) in parameters.items():
            close(each[name][1][parameter][0], value)
