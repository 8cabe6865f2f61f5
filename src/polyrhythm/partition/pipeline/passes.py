"""The passes of micro-batches through the stages of one rank."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

import torch
from torch import Tensor

from polyrhythm.partition.pipeline.actions import Action, Backward, BackwardInput, BackwardWeight, Forward, StageGrid
from polyrhythm.partition.pipeline.batch import BatchKey
from polyrhythm.partition.pipeline.mean_loss import MeanLoss
from polyrhythm.partition.pipeline.memory import Live, Rematerialization
from polyrhythm.partition.pipeline.split_backward import Split
from polyrhythm.partition.pipeline.stage import Stages
from polyrhythm.partition.random_numbers import drawing
from polyrhythm.partition.tensor_parallel.dropout import BatchRows, PlacedDropout

Key = tuple[str, int, int, int, int]
"""The kind, number and replica of a batch, the micro-batch, and the chunk."""


class PassedBatch(Protocol):
    """What passes know of a batch: `Batch` is one."""

    @property
    def key(self) -> BatchKey:
        """What tells it from others."""

    @property
    def draws(self) -> int:
        """The seed of what is drawn for its samples."""

    @property
    def made(self) -> dict[int, Any]:
        """What the last stage has made of each micro-batch."""

    def part(self, micro: int) -> tuple[Any, Any]:
        """Inputs and targets of a micro-batch."""

    def rows(self, micro: int) -> BatchRows:
        """The samples of a micro-batch."""

    def loss_of(self, micro: int, outputs: Any, objective: MeanLoss) -> Tensor:
        """What a micro-batch adds to the batch's loss."""


class Crossings(Protocol):
    """What passes send over cuts, and take from there. Batches are of the kind that it is made for."""

    def send_value(self, batch: Any, micro: int, stage: int, value: Any) -> None:
        """Send what `stage` made to the stage after it."""

    def take_value(self, batch: Any, micro: int, stage: int) -> Any:
        """What the stage before `stage` made."""

    def send_gradient(self, batch: Any, micro: int, stage: int, inputs: tuple[Tensor, ...]) -> None:
        """Send the gradients of the inputs of `stage` to the stage before it."""

    def take_gradient(self, batch: Any, micro: int, stage: int) -> tuple[Tensor, ...]:
        """The gradients of the outputs of `stage` that can have any."""


class Passes:
    """Forward and backward passes, and what is kept between them."""

    def __init__(self, stages: Stages, cuts: Crossings, grid: StageGrid, rank: int, memory: Rematerialization) -> None:
        self._stages, self._cuts, self._grid, self._rank, self._memory = stages, cuts, grid, rank, memory
        self._placed = [each for each in stages.model.modules() if isinstance(each, PlacedDropout)]
        self._live: dict[Key, Live] = {}
        self._splits: dict[Key, Split] = {}
        self._do: dict[type[Action], Callable[[PassedBatch, Any, MeanLoss], None]] = {
            Forward: self._forward,
            Backward: self._backward,
            BackwardInput: self._backward_input,
            BackwardWeight: self._backward_weight,
        }

    def do(self, batch: PassedBatch, action: Action, objective: MeanLoss) -> None:
        """Do one action for a micro-batch of `batch`."""
        self._do[type(action)](batch, action, objective)

    def forward_only(self, batch: PassedBatch, action: Action, objective: MeanLoss | None) -> None:
        """Do a forward pass that no backward pass follows; without an `objective` the last stage makes the model's output."""
        stage = self._grid.stage(self._rank, action.chunk)
        with torch.no_grad():
            value = self._run(batch, action.micro, action.chunk, objective, self._input(batch, action.micro, stage))
        if stage + 1 < self._grid.stages:
            self._cuts.send_value(batch, action.micro, stage, value)
        else:
            batch.made[action.micro] = value

    def _input(self, batch: PassedBatch, micro: int, stage: int) -> Any:
        return batch.part(micro)[0] if stage == 0 else self._cuts.take_value(batch, micro, stage)

    def _run(self, batch: PassedBatch, micro: int, chunk: int, objective: MeanLoss | None, value: Any) -> Any:
        for dropout in self._placed:
            dropout.passes(batch.rows(micro))
        for each in self._stages.chunks[chunk]:
            # in whatever stage and order a step is done, and when it is done again, it draws the same
            with drawing(batch.draws, "pipeline", batch.key[1], each.number, micro):
                value = each.step.function(value)
        if objective is not None and self._grid.stage(self._rank, chunk) + 1 == self._grid.stages:
            return batch.loss_of(micro, value, objective)
        return value

    def _forward(self, batch: PassedBatch, action: Forward, objective: MeanLoss) -> None:
        key = *batch.key, action.micro, action.chunk
        stage = self._grid.stage(self._rank, action.chunk)
        run = partial(self._run, batch, action.micro, action.chunk, objective)
        if key in self._splits:
            run = partial(_within, self._splits[key], run)
        live = self._memory.forward(run, self._input(batch, action.micro, stage), self._stages.model)
        self._live[key] = live
        if stage + 1 < self._grid.stages:
            self._cuts.send_value(batch, action.micro, stage, live.output)
        else:
            batch.made[action.micro] = live.output

    def _backward(self, batch: PassedBatch, action: Backward | BackwardInput, objective: MeanLoss) -> None:
        stage = self._grid.stage(self._rank, action.chunk)
        inputs, outputs = self._live.pop((*batch.key, action.micro, action.chunk)).graph()
        if stage + 1 == self._grid.stages:
            outputs[0].backward()  # type: ignore[no-untyped-call]
        else:
            differentiable = [each for each in outputs if each.is_floating_point() or each.is_complex()]
            gradients = self._cuts.take_gradient(batch, action.micro, stage)
            pairs = [(each, gradient) for each, gradient in zip(differentiable, gradients, strict=True) if each.requires_grad]
            torch.autograd.backward([each for each, _ in pairs], [gradient for _, gradient in pairs])
        if stage > 0:
            self._cuts.send_gradient(batch, action.micro, stage, inputs)

    def _backward_input(self, batch: PassedBatch, action: BackwardInput, objective: MeanLoss) -> None:
        self._backward(batch, action, objective)

    def _backward_weight(self, batch: PassedBatch, action: BackwardWeight, objective: MeanLoss) -> None:
        self._splits.pop((*batch.key, action.micro, action.chunk)).weights()

    def split(self, batch: PassedBatch, action: Action) -> None:
        """Have the backward pass of an action's micro-batch leave the gradients of weights."""
        self._splits[*batch.key, action.micro, action.chunk] = Split()


def _within(split: Split, run: Callable[[Any], Any], value: Any) -> Any:
    with split:
        return run(value)
