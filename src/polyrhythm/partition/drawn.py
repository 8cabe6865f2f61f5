"""The numbers of what a worker has drawn by place, so that a resumed run draws what follows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from torch import nn

from polyrhythm.partition.tensor_parallel.dropout import PlacedDropout


class Begun(Protocol):
    """A pipeline that numbers its batches."""

    begun: int


def drawn(models: Iterable[nn.Module], pipelines: Sequence[Begun]) -> dict[str, int]:
    """The number of masks that each dropout by place has drawn, by name, and under "" of batches that a pipeline has begun.

    In a pipeline a mask has the number of its batch.
    """
    begun = max((pipeline.begun for pipeline in pipelines), default=0)
    return {"": begun, **{dropout.name: max(dropout.calls, begun) for dropout in _dropouts(models)}}


def draw_on(models: Iterable[nn.Module], pipelines: Sequence[Begun], former: Sequence[Mapping[str, int]]) -> None:
    """Go on from what workers had drawn."""
    known = {name: count for counts in former for name, count in counts.items()}
    for pipeline in pipelines:
        pipeline.begun = max(known.values(), default=0)
    for dropout in _dropouts(models):
        dropout.calls = known.get(dropout.name, 0)


def _dropouts(models: Iterable[nn.Module]) -> list[PlacedDropout]:
    return [each for model in models for each in model.modules() if isinstance(each, PlacedDropout)]
