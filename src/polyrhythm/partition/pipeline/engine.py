"""A pipeline as the training loop of one rank uses it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from polyrhythm.partition.axis import Axis
from polyrhythm.partition.pipeline.actions import Action, Actions, BackwardInput, Grid
from polyrhythm.partition.pipeline.batch import Batch
from polyrhythm.partition.pipeline.boundary import Boundary
from polyrhythm.partition.pipeline.cuts import Cuts
from polyrhythm.partition.pipeline.mail import Mail
from polyrhythm.partition.pipeline.memory import Rematerialization
from polyrhythm.partition.pipeline.objective import Objective
from polyrhythm.partition.pipeline.passes import Passes
from polyrhythm.partition.pipeline.schedule import PipelineSchedule
from polyrhythm.partition.pipeline.stage import Stages
from polyrhythm.partition.pipeline.tied import TiedGradients
from polyrhythm.partition.pipeline.values import Outline, outline_of, tensors_of

LOSS = Outline(((),), (torch.float32,), bare=True)
"""A loss as it is told to all ranks."""


@dataclass(frozen=True, slots=True)
class Way:
    """How a pipeline takes a batch: its schedule, the number of micro-batches, its loss, what it keeps, and how cuts are crossed."""

    schedule: PipelineSchedule
    micro_batches: int
    objective: Objective
    memory: Rematerialization
    boundary: Boundary
    seed: int


class Pipeline:
    """The stages of one rank, and the training steps that it does with the others; `Pipelined.local` makes it.

    `module` is the model without the submodules of other ranks: its parameters go to the optimizer, which the caller runs after each step.
    All ranks call the same methods with the same batches. `cuts` has the encodings of boundaries with their errors.
    """

    def __init__(self, stages: Stages, axis: Axis, way: Way, device: torch.device) -> None:
        self.module, self.axis, self.way = stages.model, axis, way
        self.mail = Mail(axis, device)
        self._grid = Grid(axis.size, way.schedule.chunks)
        self.cuts = Cuts(self._grid, axis.index, self.mail, way.boundary, way.seed)
        self._last = self._grid.rank(self._grid.stages - 1)
        self._passes = Passes(stages, self.cuts, self._grid, axis.index, way.memory)
        self._tied = TiedGradients(stages.model, stages.tied, axis)
        self._steps = self._evaluations = 0
        for rank in range(axis.size):
            self.mail.knows(("loss", rank), LOSS)

    def step(self, inputs: Any, targets: Any, ids: Sequence[Hashable] | None = None) -> Tensor:
        """Add the gradients of the batch's loss to the parameters of this rank, and return the loss, which is equal at all ranks.

        It is the mean over the batch that one process computes, in float32. `ids` name the samples, for boundaries that remember them.
        """
        way = self.way
        batch = Batch.cut("step", self._steps, inputs, targets, way.micro_batches, ids)
        self._steps += 1
        self._tied.begin()
        own = self._passes_of(batch, lambda action: True)
        for action in own:
            if isinstance(action, BackwardInput):
                self._passes.split(batch, action)
        for action in own:
            self._passes.do(batch, action, way.objective, way.seed)
        loss: Tensor = self._told("loss", (), batch, batch.loss())
        self._tied.finish()
        self.mail.settle()
        return loss

    def evaluate(self, inputs: Any, targets: Any) -> Tensor:
        """The loss of the batch without gradients, equal at all ranks. `module.eval()` before is the caller's."""
        batch = self._forward_only(inputs, targets, self.way.objective)
        loss: Tensor = self._told("loss", (), batch, batch.loss())
        self.mail.settle()
        return loss

    def outputs(self, inputs: Any) -> Any:
        """What the whole model makes of the inputs, without gradients, equal at all ranks."""
        batch = self._forward_only(inputs, None, None)
        found = self._told("outputs", (outline_of(inputs),), batch, batch.output())
        self.mail.settle()
        return found

    def _passes_of(self, batch: Batch, kept: Callable[[Action], bool]) -> Actions:
        """This rank's actions for the batch that are `kept`; what other ranks will send it in theirs is noted."""
        schedule, size = self.way.schedule, self.axis.size
        lists = [list(filter(kept, schedule.actions(rank, size, batch.micro_batches))) for rank in range(size)]
        for source, actions in enumerate(lists):
            self.cuts.expect(batch, source, actions)
        return lists[self.axis.index]

    def _forward_only(self, inputs: Any, targets: Any, objective: Objective | None) -> Batch:
        batch = Batch.cut("evaluation", self._evaluations, inputs, targets, self.way.micro_batches)
        self._evaluations += 1
        for action in self._passes_of(batch, lambda action: bool(action.begins)):
            self._passes.forward_only(batch, action, objective)
        return batch

    def _told(self, what: str, key: tuple[Hashable, ...], batch: Batch, value: Any) -> Any:
        """The `value` of the last rank, at all ranks; `key` is what its outline depends on."""
        name = what, batch.kind, batch.number
        if self.axis.index == self._last:
            for rank in range(self.axis.size):
                if rank != self._last:
                    self.mail.tell((what, *key, rank), value, rank)
                    self.mail.send(name, tensors_of(value), rank)
            return value
        known = what, *key, self.axis.index
        self.mail.expect(name, self._last, lambda: self.mail.receive(self._last, self.mail.outline(known, self._last)))
        tensors = self.mail.take(name, self._last)
        return tensors[0] if self.mail.outline(known, self._last).bare else tensors
