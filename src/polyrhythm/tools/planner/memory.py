"""The bytes that backward() keeps of a forward pass."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

from polyrhythm.core.kernel.events import AnyEvent, Stepped
from polyrhythm.core.simulator import Instant, Simulator
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
