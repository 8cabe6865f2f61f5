"""A model cut into stages: the settings of a pipeline, and the pipeline that they make at a rank."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from polyrhythm.errors import CompositionError
from polyrhythm.partition.axis import near_equal, starts
from polyrhythm.partition.pipeline.actions import StageGrid
from polyrhythm.partition.pipeline.balance import BalancedStages, StageDivision
from polyrhythm.partition.pipeline.boundary import Boundary, Exact
from polyrhythm.partition.pipeline.engine import Pipeline, Way
from polyrhythm.partition.pipeline.mail import Mail
from polyrhythm.partition.pipeline.mean_loss import MeanLoss
from polyrhythm.partition.pipeline.memory import KeepActivations, Rematerialization
from polyrhythm.partition.pipeline.routed_pipeline import RoutedPipeline
from polyrhythm.partition.pipeline.routes import RoutePlan
from polyrhythm.partition.pipeline.schedule import PipelineSchedule
from polyrhythm.partition.pipeline.schedules import OneForwardOneBackward
from polyrhythm.partition.pipeline.seats import Seats
from polyrhythm.partition.pipeline.stage import Stages, shared, stages_at
from polyrhythm.partition.pipeline.step import steps_of
from polyrhythm.partition.pipeline.surviving import SurvivingPipeline, Survivors
from polyrhythm.partition.pipeline.values import mapped, outline_of, part_of, rows_of, tensors_of
from polyrhythm.partition.place import Place
from polyrhythm.partition.tensor_parallel.dropout import PlacedDropout


@dataclass(frozen=True, slots=True)
class Pipelined:
    """Divide the steps of a model over `axis`, and each batch into `micro_batches`.

    `division` says where the model is cut, `memory` what is kept between passes, and `boundary` how a cut is crossed. With `routes`,
    micro-batches go through the replicas of stages that are along the axis `across`.
    """

    axis: str = "pp"
    micro_batches: int = 4
    schedule: PipelineSchedule = field(default_factory=OneForwardOneBackward)
    division: StageDivision = field(default_factory=BalancedStages)
    memory: Rematerialization = field(default_factory=KeepActivations)
    boundary: Boundary = field(default_factory=Exact)
    routes: RoutePlan | None = None
    across: str = "dp"

    @property
    def along(self) -> tuple[str, ...]:
        return (self.axis,)

    @property
    def joint(self) -> tuple[str, ...]:
        """The axes along which micro-batches have routes."""
        return () if self.routes is None else (self.axis, self.across)

    def refusal(self, model: nn.Module, place: Place) -> str:
        """Why this model cannot be divided so, with a remedy; "" if it can."""
        size = place.axis(self.axis).size
        if self.micro_batches < 1:
            return f"micro_batches={self.micro_batches} is no number of parts: give 1 or more."
        if refused := self.schedule.refusal(size, self.micro_batches) or self.boundary.refusal():
            return refused
        try:
            sizes = self.division.of_replica(place.replica).sizes(len(steps_of(model)), size * self.schedule.chunks)
        except CompositionError as error:
            return str(error)
        if refused := self._no_routes(model, place):
            return refused
        tied = shared(model, steps_of(model), sizes, StageGrid(size, self.schedule.chunks))
        if tied and self.schedule.delay_of(0, size, self.micro_batches):
            return (
                f"{' and '.join(tied[0])} are one weight at several stages, whose gradients would come at different times: give each its "
                "own, use a schedule without a delay, or a division that has them in one stage."
            )
        return ""

    def _no_routes(self, model: nn.Module, place: Place) -> str:
        if self.routes is None:
            return ""
        size, schedule = place.axis(self.axis).size, self.schedule
        given = f"Routes through replicas of stages by {schedule!r} cannot be: "
        if schedule.chunks > 1 or schedule.delay_of(0, size, self.micro_batches):
            return (
                f"{given}they are for ranks with one stage and an empty pipeline after each step: use OneForwardOneBackward() or GPipe()."
            )
        if not all(each.whole for each in schedule.actions(0, size, self.micro_batches)):
            return f"{given}lists of routed passes have whole backward passes: use OneForwardOneBackward() or GPipe()."
        if self.boundary.by_sample:
            return (
                f"{self.boundary!r} remembers samples at both ends of a cut, and with routes a sample comes another way: use Activations."
            )
        if any(isinstance(each, PlacedDropout) for each in model.modules()):
            return "Dropout by place draws for the samples of one replica, and with routes others come: leave dropouts as they are."
        if self.routes.trial and place.now is None:
            return f"{self.routes!r} measures speeds, and the place has no clock: give Place(now=time.perf_counter), or BySpeed(speeds)."
        try:
            place.joint(self.axis, self.across)
            self.routes.paths(size, place.axis(self.across).size, self.micro_batches)
        except CompositionError as error:
            return str(error)
        return ""

    def local(self, model: nn.Module, place: Place, objective: MeanLoss, inputs: Any = None) -> Pipeline | RoutedPipeline:
        """The rank's stages of the model, which loses its other submodules, and the training steps with the other ranks.

        With example `inputs` of a whole batch, which may be on the device "meta", outlines of what crosses the cuts are known; otherwise
        the first batch of each shape has them sent, and with routes each value has its own. Raises CompositionError where `refusal` says
        why.
        """
        if self.routes is not None:
            return self._routed(model, place, objective, inputs)
        way, sizes, device = self._settled(model, place, objective, inputs)
        parts = [] if inputs is None else _parts(inputs, self.micro_batches)
        outlines = [(outline_of(part), [outline_of(each) for each in step_values(model, part)]) for part in parts]
        pipeline = Pipeline(self._stages(model, place, sizes), place.axis(self.axis), way, device)
        for signature, values in outlines:
            for stage, start in enumerate(starts(sizes)[1:], 1):
                pipeline.mail.knows((stage, signature), values[start - 1])
        return pipeline

    def surviving(self, model: nn.Module, place: Place, objective: MeanLoss, survivors: Survivors) -> SurvivingPipeline:
        """As `local`, with routes around the seats that may be lost of those of the `survivors`."""
        return SurvivingPipeline(self._routed(model, place, objective, None), survivors)

    def _routed(self, model: nn.Module, place: Place, objective: MeanLoss, inputs: Any) -> RoutedPipeline:
        way, sizes, device = self._settled(model, place, objective, inputs)
        seats = self.seats(place)
        mail = Mail(seats.axis, device, place.now or float)
        return RoutedPipeline(self._stages(model, place, sizes), place.axis(self.axis), seats, way, mail)

    def _settled(self, model: nn.Module, place: Place, objective: MeanLoss, inputs: Any) -> tuple[Way, Sequence[int], torch.device]:
        """The way, the number of steps of each stage, and the device of a model that can be divided so."""
        if refused := self.refusal(model, place):
            raise CompositionError(refused)
        stages = place.axis(self.axis).size * self.schedule.chunks
        sizes = self.division.of_replica(place.replica).sizes(len(steps_of(model)), stages)
        device = next((each.device for each in model.parameters() if not each.is_meta), _later(inputs, place))
        way = Way(self.schedule, self.micro_batches, objective, self.memory, self.boundary, place.seed, place.replica, self.routes)
        return way, sizes, device

    def _stages(self, model: nn.Module, place: Place, sizes: Sequence[int]) -> Stages:
        axis = place.axis(self.axis)
        return stages_at(model, sizes, axis.index, StageGrid(axis.size, self.schedule.chunks), self.axis)

    def seats(self, place: Place) -> Seats:
        """Those of all replicas of all stages."""
        joint, outer = place.joint(self.axis, self.across)
        replicas = place.axis(self.across).size
        return Seats(joint, place.axis(self.axis).size, replicas, outer, place.numbers.get(self.across, tuple(range(replicas))))


def _later(inputs: Any, place: Place) -> torch.device:
    """Where a model without memory computes: where its weights will be, or nowhere, if its example inputs are without memory too."""
    counted = inputs is not None and all(each.is_meta for each in tensors_of(inputs))
    return torch.device("meta" if counted else place.device)


def _parts(inputs: Any, micro_batches: int) -> list[Any]:
    """One part of each length."""
    sizes = near_equal(rows_of(inputs), min(micro_batches, rows_of(inputs)))
    return [part_of(inputs, 0, size) for size in sorted(set(sizes))]


def step_values(model: nn.Module, inputs: Any) -> list[Any]:
    """What each step of the model returns, on the device "meta"."""
    found, value = [], mapped(inputs, lambda each: each.to("meta"))
    with torch.no_grad():
        for step in steps_of(without_memory(model)):
            value = step.function(value)
            found.append(value)
    return found


def step_costs(model: nn.Module, inputs: Any) -> tuple[float, ...]:
    """The FLOPs of each step's forward pass, counted on the device "meta"; a step whose operations are not counted has its outputs."""
    found, value = [], mapped(inputs, lambda each: each.to("meta"))
    with torch.no_grad():
        for step in steps_of(without_memory(model)):
            with FlopCounterMode(display=False) as counted:
                value = step.function(value)
            elements = sum(torch.Size(shape).numel() for shape in outline_of(value).shapes)
            found.append(float(counted.get_total_flops()) or float(elements))
    return tuple(found)


def step_nbytes(model: nn.Module) -> tuple[float, ...]:
    """The bytes of each step's parameters; tied ones count wherever they are."""
    named = dict(model.named_parameters(remove_duplicate=False))
    return tuple(_nbytes(named, step.modules) for step in steps_of(model))


def _nbytes(named: dict[str, Any], modules: Sequence[str]) -> float:
    found: dict[int, Tensor] = {}
    for name, each in named.items():
        if any(name == module or name.startswith(f"{module}.") for module in modules):
            found[id(each)] = each
    return float(sum(each.numel() * each.element_size() for each in found.values()))


def without_memory(model: nn.Module) -> nn.Module:
    """A copy of the model on the device "meta"; no memory is taken for its weights."""
    tensors = [*model.parameters(), *model.buffers()]
    memo: dict[int, Any] = {}
    for each in tensors:
        alike = each.detach().to("meta")
        memo[id(each)] = nn.Parameter(alike, each.requires_grad) if isinstance(each, nn.Parameter) else alike
    return copy.deepcopy(model, memo)
