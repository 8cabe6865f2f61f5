"""A pipeline as the training loop of one rank uses it."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from polyrhythm.core.streams import derive
from polyrhythm.errors import CompositionError
from polyrhythm.partition.axis import Axis
from polyrhythm.partition.pipeline.actions import Action, Actions, StageGrid
from polyrhythm.partition.pipeline.batch import Batch
from polyrhythm.partition.pipeline.boundary import Boundary
from polyrhythm.partition.pipeline.cuts import Cuts
from polyrhythm.partition.pipeline.mail import Mail
from polyrhythm.partition.pipeline.mean_loss import MeanLoss
from polyrhythm.partition.pipeline.memory import Rematerialization
from polyrhythm.partition.pipeline.passes import Passes
from polyrhythm.partition.pipeline.routes import RoutePlan
from polyrhythm.partition.pipeline.schedule import PipelineSchedule
from polyrhythm.partition.pipeline.stage import Stages
from polyrhythm.partition.pipeline.values import Outline, outline_of, tensors_of

LOSS = Outline(((),), (torch.float32,), bare=True)
"""A loss as it is told to all ranks."""


@dataclass(frozen=True, slots=True)
class Way:
    """How a pipeline takes a batch: its schedule, the number of micro-batches, its loss, what it keeps, and how cuts are crossed.

    `seed` is the run's; `replica` is the number of the pipeline among those that compute on other samples at the same time, through whose
    stages micro-batches take `routes`, if there are any.
    """

    schedule: PipelineSchedule
    micro_batches: int
    objective: MeanLoss
    memory: Rematerialization
    boundary: Boundary
    seed: int
    replica: int = 0
    routes: RoutePlan | None = None

    @property
    def draws(self) -> int:
        """The seed of what is drawn for samples, which is different in each replica."""
        return derive(self.seed, "replica", self.replica) if self.replica else self.seed


class Pipeline:
    """The stages of one rank, and the training steps that it does with the others; `Pipelined.local` makes it.

    `module` is the model without the submodules of other ranks: its parameters go to the optimizer, which the caller runs after each step;
    `tied` are those that other ranks have too.
    All ranks call the same methods with the same batches, of which `begun` is the number. `cuts.errors()` says what boundaries change, and
    `cuts.kept` counts what they remember.
    """

    def __init__(self, stages: Stages, axis: Axis, way: Way, device: torch.device) -> None:
        self.module, self.axis, self.way, self.tied = stages.model, axis, way, stages.tied
        self.mail = Mail(axis, device)
        self._grid = StageGrid(axis.size, way.schedule.chunks)
        self.cuts = Cuts(self._grid, axis.index, self.mail, way.boundary, way.seed)
        self._last = self._grid.rank(self._grid.stages - 1)
        self._passes = Passes(stages, self.cuts, self._grid, axis.index, way.memory)
        self.weights = way.schedule.weights(stages, axis, way.micro_batches)
        self._late = way.schedule.delay_of(0, axis.size, way.micro_batches)
        self.begun = self._evaluations = self._empty = 0
        self._batches: dict[int, Batch] = {}
        for rank in range(axis.size):
            self.mail.knows(("loss", rank), LOSS)

    def step(self, inputs: Any, targets: Any, ids: Sequence[Hashable] | None = None) -> Tensor:
        """Add the gradients of the batch's loss to the parameters of this rank, and return the loss, which is equal at all ranks.

        It is the mean over the batch that one process computes, in float32. `ids` name the samples, for boundaries that remember them. With
        a schedule that is late, the loss is that of the batch whose gradients the first rank has now; NaN before there is one.
        """
        batch = replace(Batch.cut("step", self.begun, inputs, targets, self.way.micro_batches, ids), draws=self.way.draws)
        if self._late and batch.micro_batches < self.way.micro_batches:
            raise CompositionError(
                f"A batch of {sum(batch.sizes)} samples is fewer than micro_batches={self.way.micro_batches}, which a delayed pipeline has "
                "under way together with other batches: give each batch at least so many, or use fewer micro-batches."
            )
        self._batches[self.begun] = batch
        return self._go_on(batch.micro_batches)

    @property
    def under_way(self) -> bool:
        """Whether gradients of some batch are not used yet."""
        return bool(self._batches)

    def remaining(self) -> Iterator[Tensor]:
        """The steps that empty the pipeline of a schedule that is late: after each the optimizer is run, as after `step`."""
        for _ in range(self._late):
            yield self._go_on(self.way.micro_batches)

    def _go_on(self, micro_batches: int) -> Tensor:
        step = self.begun
        self.begun += 1
        self.weights.begin(step)
        own = self._planned(step, micro_batches)
        for batch, action in own:
            if action.leaves:
                self._passes.split(batch, action)
        for batch, action in own:
            with self.weights.of(batch.number):
                self._passes.do(batch, action, self.way.objective)
        loss = self._loss(step)
        self.weights.finish(step)
        self.mail.settle()
        self._batches.pop(step - self._late, None)
        return loss

    def _planned(self, step: int, micro_batches: int) -> list[tuple[Batch, Action]]:
        """This rank's actions in a step, with their batches; what other ranks will send it in theirs is noted."""
        schedule, size = self.way.schedule, self.axis.size
        for source in range(size):
            for batch, action in self._known(step, schedule.actions(source, size, micro_batches), micro_batches):
                self.cuts.expect(batch, source, [action])
        return self._known(step, schedule.actions(self.axis.index, size, micro_batches), micro_batches)

    def _known(self, step: int, actions: Actions, micro_batches: int) -> list[tuple[Batch, Action]]:
        """The actions whose batches there are, by the number of the micro-batch in its own batch."""
        found = [(step + each.micro // micro_batches, replace(each, micro=each.micro % micro_batches)) for each in actions]
        return [(self._batches[batch], action) for batch, action in found if batch in self._batches]

    def _loss(self, step: int) -> Tensor:
        """The loss of the batch that is through at all ranks, after that of a new one was told to all."""
        if step in self._batches:
            self._tell("loss", (), self._batches[step], self._batches[step].loss())
        through = self._batches.get(step - self._late)
        return torch.tensor(torch.nan) if through is None else self._heard("loss", (), through, through.loss())

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

    def _forward_only(self, inputs: Any, targets: Any, objective: MeanLoss | None) -> Batch:
        batch = Batch.cut("evaluation", self._evaluations, inputs, targets, self.way.micro_batches)
        self._evaluations += 1
        size = self.axis.size
        lists = [[each for each in self.way.schedule.actions(rank, size, batch.micro_batches) if each.begins] for rank in range(size)]
        for source, actions in enumerate(lists):
            self.cuts.expect(batch, source, actions)
        for action in lists[self.axis.index]:
            self._passes.forward_only(batch, action, objective)
        return batch

    def _told(self, what: str, key: tuple[Hashable, ...], batch: Batch, value: Any) -> Any:
        self._tell(what, key, batch, value)
        return self._heard(what, key, batch, value)

    def _tell(self, what: str, key: tuple[Hashable, ...], batch: Batch, value: Any) -> None:
        """Send the `value` of the last rank to all others; `key` is what its outline depends on."""
        name = what, batch.kind, batch.number
        if self.axis.index == self._last:
            for rank in range(self.axis.size):
                if rank != self._last:
                    self.mail.tell((what, *key, rank), value, rank)
                    self.mail.send(name, tensors_of(value), rank)
        else:
            known = what, *key, self.axis.index
            self.mail.expect(name, self._last, lambda: self.mail.receive(self._last, self.mail.outline(known, self._last)))

    def _heard(self, what: str, key: tuple[Hashable, ...], batch: Batch, value: Any) -> Any:
        """What the last rank has told, or has itself."""
        if self.axis.index == self._last:
            return value
        tensors = self.mail.take((what, batch.kind, batch.number), self._last)
        return tensors[0] if self.mail.outline((what, *key, self.axis.index), self._last).bare else tensors
