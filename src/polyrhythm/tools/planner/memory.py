"""The memory of a worker: the bytes that it holds between steps, and those that backward() keeps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

from polyrhythm.core.kernel.events import AnyEvent, Stepped
from polyrhythm.core.simulator import Instant, Simulator
from polyrhythm.core.torch_private.one_process import sparse_indices, sparse_values
from polyrhythm.core.training.run import attempt
from polyrhythm.core.training.work import Train
from polyrhythm.core.training.worker import Worker
from polyrhythm.errors import BrokenOff
from polyrhythm.systems import find

_STEPS = 2
"""A training function that ignores the limit is broken off after so many steps."""


def activations(train: Train) -> int:
    """Bytes that backward() keeps of a forward pass of `train`, but for the parameters: the most of its passes, at one worker.

    `train` is to be over after few steps. What fails there fails in every run; this is then 0.
    """
    kept = _Kept()

    def watched(worker: Worker) -> object:
        kept.worker = worker
        with saved_tensors_hooks(kept.keep, _same):
            return train(worker)

    attempt(watched, workers=1, strategy=find("single"), on=Simulator(network=Instant()), watch=kept.next_step)  # ends by BrokenOff
    return kept.most


def held(worker: Worker) -> int:
    """Bytes of a worker's weights, gradients and buffers, of its optimizer, and of what the system keeps there.

    Raises PolyrhythmErrors where the system's state cannot be read at this moment.
    """
    found: dict[int, int] = {}
    for replica in worker.attached:
        own = [part for each in replica.model.parameters() for part in (each.data, each.grad) if part is not None]
        for value in (*own, *replica.model.buffers(), *_tensors(replica.export())):
            for stored in _stored(value):
                found[stored.untyped_storage().data_ptr()] = stored.untyped_storage().nbytes()
    return sum(found.values())


def _stored(value: Tensor) -> tuple[Tensor, ...]:
    """The tensors that store it: of a sparse gradient its rows and their places."""
    return (value,) if value.layout == torch.strided else (sparse_indices(value), sparse_values(value))


@dataclass(slots=True)
class _Kept:
    worker: Worker | None = None
    most: int = 0
    places: dict[int, int] = field(default_factory=dict)

    def keep(self, value: Tensor) -> Tensor:
        assert self.worker is not None
        parameters = {each.untyped_storage().data_ptr() for replica in self.worker.attached for each in replica.model.parameters()}
        storage = value.untyped_storage()
        if storage.data_ptr() not in parameters:
            self.places[storage.data_ptr()] = storage.nbytes()
            self.most = max(self.most, sum(self.places.values()))
        return value

    def next_step(self, event: AnyEvent) -> None:
        self.places.clear()
        if isinstance(event, Stepped) and event.clock > _STEPS:
            raise BrokenOff("enough steps were seen")


def _same(value: Tensor) -> Tensor:
    return value


def _tensors(tree: Any) -> Iterator[Tensor]:
    if isinstance(tree, Tensor):
        yield tree
    elif isinstance(tree, dict):
        for each in tree.values():
            yield from _tensors(each)
    elif isinstance(tree, (list, tuple)):
        for each in tree:
            yield from _tensors(each)
