"""The layout of a run: its mesh, which of its axes hold replicas, and the cut along the others. `pr.run` makes it of `mesh=` and `cut=`."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from polyrhythm.core.kernel.job import WorkerContext
from polyrhythm.core.kernel.mesh import MeshShape, WorkerMesh
from polyrhythm.core.processes.system.allocator import return_memory
from polyrhythm.core.protocols.partition import follows_owner, no_loss, take_batches_in_parts, train_step
from polyrhythm.core.strategy.replica import Replica
from polyrhythm.core.trees import StateTree
from polyrhythm.errors import CompositionError
from polyrhythm.partition.alike import AlikeInReplica
from polyrhythm.partition.axis import Axis
from polyrhythm.partition.clipping import clip_together
from polyrhythm.partition.cut import Cut
from polyrhythm.partition.deferred import Recording, build
from polyrhythm.partition.drawn import draw_on, drawn
from polyrhythm.partition.following import begin_alike, follow_decisions, follow_weights
from polyrhythm.partition.layout_axes import refuse_axes
from polyrhythm.partition.material import materialise
from polyrhythm.partition.mesh import Mesh
from polyrhythm.partition.norm import clip_gradients
from polyrhythm.partition.pipeline.engine import Pipeline
from polyrhythm.partition.pipeline.mean_loss import MeanLoss
from polyrhythm.partition.pipeline.parts_of_steps import PartsOfSteps, TiedCopies, follow_owners
from polyrhythm.partition.pipeline.pipelined import without_memory
from polyrhythm.partition.pipeline.routed_pipeline import RoutedPipeline
from polyrhythm.partition.pipeline.surviving import SurvivingPipeline
from polyrhythm.partition.place import Place
from polyrhythm.partition.place_of_worker import everyone, place_of, survivors_of
from polyrhythm.partition.placement import placement_of
from polyrhythm.partition.port_axis import NoLedger
from polyrhythm.partition.relaid import held, relaid
from polyrhythm.partition.unequal_stages import unequal_axis
from polyrhythm.partition.whole_state import gathered
from polyrhythm.partition.zero.stages import ShardedUnit
from polyrhythm.partition.zero.zero import Zero
from polyrhythm.process_group.messages.desk import Desk

AnyPipeline = Pipeline | RoutedPipeline | SurvivingPipeline


@dataclass(frozen=True)
class MeshLayout:
    """A `core.protocols.ModelPartition`: models are cut by `cut` over those axes of `mesh` that it names; along the others are replicas.

    Along the axes of `zero` these share their state. If it `loses`, the crew may lose workers, whose work others do along routes. Raises
    CompositionError for axes that the mesh has not.
    """

    mesh: Mesh
    cut: Cut
    zero: Mapping[str, Zero] = field(default_factory=dict)
    loses: bool = False

    def __post_init__(self) -> None:
        refuse_axes(self.mesh, self.cut, self.zero)

    @property
    def shape(self) -> MeshShape:
        """The axes of the mesh; those that are not cut have replicas."""
        data = tuple(name for name in self.mesh.names if name not in self.cut.axes)
        pipeline = self.cut.pipeline
        along = pipeline.joint if self.loses and pipeline is not None else ()
        sharded = tuple(name for name in data if name in self.zero or name in along)
        uneven = () if self.loses else self._uneven
        return MeshShape(self.mesh.axes, data, sharded, uneven, self.loses, unequal_axis(self.mesh, self.cut, self.zero))

    @property
    def _uneven(self) -> tuple[str, ...]:
        pipeline = self.cut.pipeline
        return () if pipeline is None or pipeline.routes is None or pipeline.routes.even else (pipeline.across,)

    def at(self, context: WorkerContext, mesh: WorkerMesh) -> PartsOfWorker:
        """The side of the worker of `context`."""
        if not self.shape.whole:
            return_memory()
        desk = Desk(context, NoLedger())
        place = place_of(context, mesh, desk, self.cut.pipeline, native=not self.loses)
        return PartsOfWorker(self, place, mesh, desk, context)


class PartsOfWorker:
    """The parts that one worker holds, at `place`; the workers with the parts of one model talk through `desk`."""

    def __init__(self, layout: MeshLayout, place: Place, mesh: WorkerMesh, desk: Desk, context: WorkerContext) -> None:
        self._layout, self._place, self._mesh, self._desk = layout, place, mesh, desk
        self._replica = mesh.replica(context.port.name)
        self._talking = {name: axis for name, axis in place.axes.items() if name not in mesh.apart}
        self._alike = AlikeInReplica(context, self._replica)
        self._surviving: list[SurvivingPipeline] = []
        self._skeletons: dict[int, nn.Module] = {}
        self._stages: list[ShardedUnit] = []
        self._copies: list[TiedCopies] = []
        self._replicas: list[Replica] = []
        self._step: Callable[[Any, Any, Sequence[Hashable] | None], Tensor] | None = None
        self._pipelines: list[tuple[AnyPipeline, torch.optim.Optimizer]] = []
        self._names: list[str] = []
        self._recordings: dict[int, Recording] = {}
        self._context = context
        self._offloaded = None if layout.cut.offload is None else layout.cut.offload.residence()

    def build(self, make: Callable[[], nn.Module]) -> nn.Module:
        """The model that `make` returns, without memory until it is attached."""
        model, recording = build(make)
        self._recordings[id(model)] = recording
        return model

    def localize(self, model: nn.Module, optimizer: torch.optim.Optimizer, loss: Any) -> None:
        """Replace the modules of `model` that are divided, and the parameters of `optimizer`, by this worker's.

        Raises CompositionError for an optimizer that has taken steps: its state is of the whole parameters.
        """
        if optimizer.state:
            raise CompositionError("The optimizer has taken steps, and its state is of whole parameters: attach a new one.")
        self._names += model.state_dict()
        if id(model) not in self._skeletons:
            self._skeletons[id(model)] = without_memory(model)
            self._alike.models.append(model)
        begin_alike(model, self._alike_axes())
        parts = self._parts_of_steps(model)
        self._layout.cut.apply(model, self._place)
        self._replace(optimizer, self._place.made)
        self._step = self._stepped(model, optimizer, loss, parts)
        for name, zero in self._layout.zero.items():
            if self._place.axis(name).size > 1:
                stages, shards = zero.shard(model, self._place.axis(name))
                self._stages.extend(stages)
                self._replace(optimizer, lambda each, shards=shards: shards.get(id(each)))  # type: ignore[misc]
        if (recording := self._recordings.pop(id(model), None)) is not None:
            materialise(model, recording, self._place.seed, self._context.device)
            if parts is not None:
                parts.note(model)

    def _parts_of_steps(self, model: nn.Module) -> PartsOfSteps | None:
        """The parts of a whole model, of which this worker may hold several; None where it holds one."""
        return PartsOfSteps.of(model, parts) if (parts := self._mesh.part_of_units(self._context.port.name)) else None

    def _stepped(
        self, model: nn.Module, optimizer: torch.optim.Optimizer, loss: Any, parts: PartsOfSteps | None
    ) -> Callable[[Any, Any, Sequence[Hashable] | None], Tensor] | None:
        pipeline = self._layout.cut.pipeline
        if pipeline is None:
            step = None if loss is None else train_step(model, loss)
            return None if step is None else lambda inputs, targets, ids: step(inputs, targets)
        if loss is None:
            raise CompositionError(
                "The model is cut into stages, and the last one computes the loss: give worker.attach(model, optimizer, loss=function), "
                "and call worker.train_step(inputs, targets) in the place of the forward and the backward pass."
            )
        take_batches_in_parts(model)
        objective = loss if isinstance(loss, MeanLoss) else MeanLoss(loss)
        made: AnyPipeline
        if self._layout.loses:
            survivors = survivors_of(self._context, self._mesh, self._desk, pipeline)
            self._surviving.append(made := pipeline.surviving(model, self._place, objective, survivors))
        else:
            made = pipeline.local(model, self._place, objective)
        if parts is not None:
            assert isinstance(made, Pipeline), "routes and losses are refused"
            parts.note(model)
            self._copies.append(TiedCopies(made))
        kept = {id(parameter) for parameter in model.parameters() if not follows_owner(parameter)}
        self._replace(optimizer, lambda each: each if id(each) in kept else None)
        self._pipelines.append((made, optimizer))
        return made.step

    @property
    def trained(self) -> int:
        """The number of training steps that are complete, in pipelines that may lose seats."""
        return max((each.begun for each in self._surviving), default=0)

    def regroup(self, mesh: WorkerMesh, trained: int) -> None:
        """Go on without the workers that are absent from `mesh`."""
        self._mesh, self._desk = mesh, Desk(self._context, NoLedger())
        self._replica, pipeline = mesh.replica(self._context.port.name), self._layout.cut.pipeline
        for each in self._surviving:
            assert pipeline is not None, "it is of this cut"
            each.continue_among(survivors_of(self._context, mesh, self._desk, pipeline), trained)

    def attached(self, replica: Replica) -> None:
        """Have what this worker has of the model in a file, if the cut says so.

        Raises CompositionError for weights at several stages in a system that would merge them in different orders, and for merged
        gradients that cannot be clipped.
        """
        copies = [placement_of(each).copy_of for each in replica.model.parameters() if placement_of(each).copy_of]
        if copies and replica.plan.strategy.order_matters:
            raise CompositionError(
                f"{copies[0]} is one weight at several stages, and {replica.plan.strategy.name} merges what comes first, in another order "
                "at each stage: divide the model so that one stage has it, give each stage its own, or take a system such as allreduce, "
                "local-sgd or diloco."
            )
        clip_together(replica, self._talking, self._layout.loses, self._layout.cut.pipeline)
        self._replicas.append(replica)
        if self._offloaded is not None:
            self._offloaded.take(replica)
            for stage in self._stages:
                stage.unit.before_reading = partial(self._offloaded.use, stage.unit.shards)

    def train_step(self, inputs: Any, targets: Any, ids: Sequence[Hashable] | None = None) -> Tensor:
        """Add the gradients of a batch to the parameters, and return its loss. Raises WorkloadError where no loss was given."""
        if self._step is None:
            raise no_loss()
        follow_owners(self._copies)
        return self._step(inputs, targets, ids)

    def settle(self) -> None:
        """Take the steps of batches that are still under way in a pipeline."""
        for pipeline, optimizer in self._pipelines:
            if pipeline.under_way:
                for parameter in pipeline.module.parameters():
                    parameter.grad = None  # of a step that was taken
                for _ in pipeline.remaining():
                    optimizer.step()
                    optimizer.zero_grad()

    def _alike_axes(self) -> list[Axis]:
        """The axes along which workers begin with the weights of the first."""
        if self._mesh.unequal is not None:  # frozen weights and buffers are exchanged by nobody later
            return [everyone(self._context, self._mesh, self._desk)]
        pipeline = self._layout.cut.pipeline
        joint = pipeline.joint if self._layout.loses and pipeline is not None else ()  # their gradients are summed in the step
        return [self._place.axis(name) for name in dict.fromkeys((*self._layout.cut.axes, *self._layout.zero, *joint))]

    @staticmethod
    def _replace(optimizer: torch.optim.Optimizer, by: Callable[[Tensor], Tensor | None]) -> None:
        for group in optimizer.param_groups:
            group["params"] = [own for each in group["params"] if (own := by(each)) is not None]

    def clip(self, models: Sequence[nn.Module], norm: float) -> float:
        """Scale all gradients so that their norm is at most `norm`; returns what it was.

        Raises CompositionError where workers may be lost.
        """
        if self._layout.loses:
            raise CompositionError(
                "worker.clip_gradients would wait for workers that may be lost meanwhile: leave it out, or give one number of workers."
            )
        return clip_gradients([parameter for model in models for parameter in model.parameters()], norm, self._talking)

    def held(self, replica: Replica) -> StateTree:
        """What this worker has of a replica, for a checkpoint that a worker of another mesh may resume."""
        return held(replica)

    def relaid(self, replica: Replica, former: Sequence[tuple[StateTree, StateTree]]) -> StateTree:
        """The state of `replica` from those that workers of another mesh have exported, each with what it held."""
        return relaid(replica, former)

    def drawn(self) -> dict[str, int]:
        """The number of masks that each dropout by place has drawn, by name, and under "" of batches that a pipeline has begun."""
        return drawn([replica.model for replica in self._replicas], [pipeline for pipeline, _ in self._pipelines])

    def draw_on(self, former: Sequence[Mapping[str, int]]) -> None:
        """Go on from what these workers had drawn."""
        draw_on([replica.model for replica in self._replicas], [pipeline for pipeline, _ in self._pipelines], former)

    def whole_models(self, models: Sequence[nn.Module]) -> list[nn.Module]:
        """The whole models with the weights of this replica, at its first worker; none at the others."""
        follow_owners(self._copies)
        found = []
        for model in models:
            state = gathered(model.state_dict(keep_vars=True), self._replica, self._desk)
            if state:
                found.append(self._skeletons[id(model)].to_empty(device="cpu"))
                found[-1].load_state_dict(state)
        return found

    def complete(self) -> None:
        """Complete the gradients of this worker's parts: the optimizer's step begins."""
        for stage in self._stages:
            stage.complete()
        self._alike.step()

    def follow(self) -> None:
        """Have of the first worker what must be equal in the replica, and each may have found otherwise."""
        cut = [axis for axis in map(self._place.axis, self._layout.cut.axes) if axis.size > 1]
        together = [*cut, *(axis for axis in map(self._place.axis, self._layout.zero) if axis.size > 1)]
        for replica in self._replicas:
            if replica.plan.strategy.order_matters and cut:
                self._alike.followed = True
                follow_weights(replica, cut)
            if together:
                follow_decisions(replica, together)

    def whole(self, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Copies on the CPU of the whole model's parameters and buffers, at the first worker of its replica; none at the others."""
        follow_owners(self._copies)
        found = gathered(state, self._replica, self._desk)
        order = {name: place for place, name in enumerate(self._names)}
        return dict(sorted(found.items(), key=lambda item: order.get(item[0], len(order))))
