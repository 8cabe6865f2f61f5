"""The passes of micro-batches through the stages of one rank."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from polyrhythm.partition.pipeline.actions import Action, Backward, BackwardInput, BackwardWeight, Forward, StageGrid
from polyrhythm.partition.pipeline.batch import Batch
from polyrhythm.partition.pipeline.cuts import Cuts
from polyrhythm.partition.pipeline.mean_loss import MeanLoss
from polyrhythm.partition.pipeline.memory import Live, Rematerialization
from polyrhythm.partition.pipeline.split_backward import Split
from polyrhythm.partition.pipeline.stage import Stages
from polyrhythm.partition.random_numbers import drawing
from polyrhythm.partition.tensor_parallel.dropout import PlacedDropout

Key = tuple[str, int, int, int]
"""The kind and number of a batch, the micro-batch, and the chunk."""


class Passes:
    """Forward and backward passes, and what is kept between them."""

    def __init__(self, stages: Stages, cuts: Cuts, grid: StageGrid, rank: int, memory: Rematerialization) -> None:
        self._stages, self._cuts, self._grid, self._rank, self._memory = stages, cuts, grid, rank, memory
        self._placed = [each for each in stages.model.modules() if isinstance(each, PlacedDropout)]
        self._live: dict[Key, Live] = {}
        self._splits: dict[Key, Split] = {}
        self._do: dict[type[Action], Callable[[Batch, Any, MeanLoss, int], None]] = {
            Forward: self._forward,
            Backward: self._backward,
            BackwardInput: self._backward_input,
            BackwardWeight: self._backward_weight,
        }

    def do(self, batch: Batch, action: Action, objective: MeanLoss, seed: int) -> None:
        """Do one action for a micro-batch of `batch`."""
        self._do[type(action)](batch, action, objective, seed)

    def forward_only(self, batch: Batch, action: Action, objective: MeanLoss | None) -> None:
        """Do a forward pass that no backward pass follows; without an `objective` the last stage makes the model's output."""
        stage = self._grid.stage(self._rank, action.chunk)
        with torch.no_grad():
            value = self._run(batch, action.micro, action.chunk, objective, 0, self._input(batch, action.micro, stage))
        if stage + 1 < self._grid.stages:
            self._cuts.send_value(batch, action.micro, stage, value)
        else:
            batch.made[action.micro] = value

    def _input(self, batch: Batch, micro: int, stage: int) -> Any:
        return batch.part(micro)[0] if stage == 0 else self._cuts.take_value(batch, micro, stage)

    def _run(self, batch: Batch, micro: int, chunk: int, objective: MeanLoss | None, seed: int, value: Any) -> Any:
        for dropout in self._placed:
            dropout.passes(batch.rows(micro))
        for each in self._stages.chunks[chunk]:
            # in whatever stage and order a step is done, and when it is done again, it draws the same
            with drawing(seed, "pipeline", batch.number, each.number, micro):
                value = each.step.function(value)
        if objective is not None and self._grid.stage(self._rank, chunk) + 1 == self._grid.stages:
            return objective.of_part(value, batch.part(micro)[1], batch.targets)
        return value

    def _forward(self, batch: Batch, action: Forward, objective: MeanLoss, seed: int) -> None:
        key = batch.kind, batch.number, action.micro, action.chunk
        stage = self._grid.stage(self._rank, action.chunk)
        run = partial(self._run, batch, action.micro, action.chunk, objective, seed)
        if key in self._splits:
            run = partial(_within, self._splits[key], run)
        live = self._memory.forward(run, self._input(batch, action.micro, stage), self._stages.model)
        self._live[key] = live
        if stage + 1 < self._grid.stages:
            self._cuts.send_value(batch, action.micro, stage, live.output)
        else:
            batch.made[action.micro] = live.output

    def _backward(self, batch: Batch, action: Backward | BackwardInput, objective: MeanLoss, seed: int) -> None:
        stage = self._grid.stage(self._rank, action.chunk)
        inputs, outputs = self._live.pop((batch.kind, batch.number, action.micro, action.chunk)).graph()
        if stage + 1 == self._grid.stages:
            outputs[0].backward()  # type: ignore[no-untyped-call]
        else:
            differentiable = [each for each in outputs if each.is_floating_point() or each.is_complex()]
            gradients = self._cuts.take_gradient(batch, action.micro, stage)
            pairs = [(each, gradient) for each, gradient in zip(differentiable, gradients, strict=True) if each.requires_grad]
            torch.autograd.backward([each for each, _ in pairs], [gradient for _, gradient in pairs])
        if stage > 0:
            self._cuts.send_gradient(batch, action.micro, stage, inputs)

    def _backward_input(self, batch: Batch, action: BackwardInput, objective: MeanLoss, seed: int) -> None:
        self._backward(batch, action, objective, seed)

    def _backward_weight(self, batch: Batch, action: BackwardWeight, objective: MeanLoss, seed: int) -> None:
        self._splits.pop((batch.kind, batch.number, action.micro, action.chunk)).weights()

    def split(self, batch: Batch, action: Action) -> None:
        """Have the backward pass of an action's micro-batch leave the gradients of weights."""
        self._splits[batch.kind, batch.number, action.micro, action.chunk] = Split()


def _within(split: Split, run: Callable[[Any], Any], value: Any) -> Any:
    with split:
        return run(value)
