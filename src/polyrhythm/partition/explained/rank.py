"""One training step of one rank on tensors without memory: the modules, schedules and units that a run has are run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from polyrhythm.core.simulator.counting import OperationCounter
from polyrhythm.errors import CompositionError
from polyrhythm.partition.axis import Axis
from polyrhythm.partition.axis_of_one import AxisOfOne
from polyrhythm.partition.counted_axis import CountedAxis
from polyrhythm.partition.cut import Cut
from polyrhythm.partition.deferred import build
from polyrhythm.partition.explained.attention import AttentionAsOnCpu
from polyrhythm.partition.explained.held import HeldBytes
from polyrhythm.partition.explained.modules import named_in_errors
from polyrhythm.partition.explained.subject import Subject, outputs
from polyrhythm.partition.pipeline.boundary import Exact
from polyrhythm.partition.pipeline.engine import Pipeline
from polyrhythm.partition.pipeline.mean_loss import MeanLoss
from polyrhythm.partition.pipeline.routed_pipeline import RoutedPipeline
from polyrhythm.partition.pipeline.values import tensors_of
from polyrhythm.partition.place import Place
from polyrhythm.partition.placement import Placement, placement_of
from polyrhythm.partition.zero.stages import ShardedUnit
from polyrhythm.partition.zero.zero import Zero


@dataclass(frozen=True)
class RankStep:
    """What a rank has and does in a step.

    `memory` is bytes by role, each the most at any time, and `peak` the most of all roles at once. `calls`, `nbytes` and `sent` are by
    axis, as `CountedAxis` has them. `flops` are of both passes. `shapes` are those of what it has of each parameter.
    """

    placements: Mapping[str, Placement]
    shapes: Mapping[str, tuple[int, ...]]
    memory: Mapping[str, int]
    peak: int
    calls: Mapping[str, Mapping[str, int]]
    nbytes: Mapping[str, Mapping[str, int]]
    sent: Mapping[str, Mapping[tuple[str, int], int]]
    sent_to: Mapping[str, Mapping[int, int]]
    flops: int


def rank_step(subject: Subject, cut: Cut, zero: Mapping[str, Zero], sizes: Mapping[str, int], at: Mapping[str, int]) -> RankStep:
    """The step of the rank `at` these coordinates of axes of these `sizes`: those of the cut, and those of `zero`.

    It is a step when the optimizer has its state, units their weights, and a late pipeline is full. Raises CompositionError for a cut that
    cannot be, and for one whose modules do not fit each other.
    """
    counted = {name: CountedAxis(name, size, at[name]) for name, size in sizes.items() if size > 1}
    axes: dict[str, Axis] = {name: counted.get(name, AxisOfOne(name)) for name in sizes}
    local = _Local.of(subject.without_memory(), cut, zero, axes)
    held = HeldBytes()
    with named_in_errors(local.model), AttentionAsOnCpu(), held:
        memory, peak, flops = local.measured(held, counted.values())
        found = {name: (dict(each.calls), dict(each.nbytes), dict(each.counts.sent), dict(each.sent_to)) for name, each in counted.items()}
    calls, nbytes, sent, sent_to = ({name: each[place] for name, each in found.items()} for place in range(4))
    none: dict[str, dict[Any, int]] = {name: {} for name in sizes}
    named = dict(local.model.named_parameters())
    placements = {name: placement_of(parameter) for name, parameter in named.items()}
    shapes = {name: tuple(parameter.shape) for name, parameter in named.items() if parameter.requires_grad}
    return RankStep(placements, shapes, memory, peak, none | calls, none | nbytes, none | sent, none | sent_to, flops)


def forward_flops(subject: Subject, cut: Cut, sizes: Mapping[str, int], at: Mapping[str, int]) -> int:
    """The operations of the forward pass of a rank's stages, for a whole batch. Raises as `rank_step`."""
    if cut.pipeline is None:
        return 0
    once = replace(cut, pipeline=replace(cut.pipeline, micro_batches=1, boundary=Exact()))
    axes: dict[str, Axis] = {name: CountedAxis(name, size, at[name]) if size > 1 else AxisOfOne(name) for name, size in sizes.items()}
    local = _Local.of(subject.without_memory(), once, {}, axes)
    assert local.pipeline is not None, "the cut has one"
    with named_in_errors(local.model), AttentionAsOnCpu(), OperationCounter() as counted:
        local.pipeline.evaluate(local.subject.inputs, local.subject.targets)
    return int(counted.flops)


@dataclass(frozen=True)
class _Local:
    """The rank's own model, its pipeline if it is in one, and its units of ZeRO."""

    subject: Subject
    model: nn.Module
    pipeline: Pipeline | RoutedPipeline | None
    units: tuple[ShardedUnit, ...]
    optimizer: torch.optim.Optimizer
    steps: int

    @staticmethod
    def of(subject: Subject, cut: Cut, zero: Mapping[str, Zero], axes: Mapping[str, Axis]) -> _Local:
        model, _ = build(subject.make)
        place = Place(axes, device="meta")
        with named_in_errors(model), AttentionAsOnCpu():
            cut.apply(model, place)
            way, late = cut.pipeline, 0
            if way is not None and way.routes is not None:
                raise CompositionError("What micro-batches on routes send depends on the routes: explain the pipeline without routes=.")
            pipeline = None if way is None else way.local(model, place, MeanLoss(subject.loss), subject.inputs)
        if way is not None:
            late = way.schedule.delay_of(0, axes[way.axis].size, way.micro_batches)
        units = list[ShardedUnit]()
        for name, stage in zero.items():
            if axes[name].size > 1:
                units += stage.shard(model, axes[name])[0]
        parameters = list(model.parameters())
        if not parameters:
            raise CompositionError("A stage of this division has no parameters, so there is nothing to optimize: divide into fewer stages.")
        return _Local(subject, model, pipeline, tuple(units), subject.optimizer(parameters), 1 + bool(units) + late)

    def measured(self, held: HeldBytes, counted: Iterable[CountedAxis]) -> tuple[dict[str, int], int, int]:
        """The memory by role, the peak and the operations of the last of `steps` steps."""
        parameters = list(self.model.parameters())
        roles = {"parameters": held.keep(parameters), "buffers": held.keep(self.model.buffers())}
        for each in (*tensors_of(self.subject.inputs), *tensors_of(self.subject.targets)):
            held.see(each)
        followed = set[int]()
        self._begin_optimizer(parameters)
        roles["optimizer"] = held.keep(self._state())
        flops = activations = 0
        for _ in range(self.steps):
            roles["parameters"] += held.keep(wholes := [whole for unit in self.units for whole in unit.wholes])
            for each in (*parameters, *wholes):
                if each.requires_grad and id(each) not in followed:
                    followed.add(id(each))
                    held.follow(each)
            self.optimizer.zero_grad()
            for axis in counted:
                axis.clear()
            held.begin()
            flops = self._passes()
            for each in parameters:
                held.mark(each.grad)
            activations = held.most_others
            for unit in self.units:
                unit.complete()
            self.optimizer.step()
        roles |= {"gradients": held.most_gradients, "activations": activations}
        return roles, roles["parameters"] + roles["buffers"] + roles["optimizer"] + held.most, flops

    def _begin_optimizer(self, parameters: Iterable[nn.Parameter]) -> None:
        for each in parameters:
            each.grad = torch.empty_like(each) if each.requires_grad else None
        self.optimizer.step()
        self.optimizer.zero_grad()

    def _passes(self) -> int:
        """The forward and the backward pass; their operations."""
        with OperationCounter() as counted:
            if self.pipeline is None:
                self.subject.loss(outputs(self.model, self.subject.inputs), self.subject.targets).backward()  # type: ignore[no-untyped-call]
            else:
                self.pipeline.step(self.subject.inputs, self.subject.targets)
        return int(counted.flops)

    def _state(self) -> Iterable[Tensor]:
        return [each for of in self.optimizer.state.values() for each in of.values() if isinstance(each, Tensor)]
