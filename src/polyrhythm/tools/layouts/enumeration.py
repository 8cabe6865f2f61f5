"""All layouts of a space: each mesh with each cut and each way to exchange among replicas, and what of them cannot be."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from functools import cached_property
from math import prod

from torch import nn

from polyrhythm.core.kernel.mesh import WorkerMesh
from polyrhythm.core.strategy.strategy import Strategy
from polyrhythm.errors import CompositionError
from polyrhythm.partition.cut import Cut
from polyrhythm.partition.deferred import build
from polyrhythm.partition.mesh import Mesh
from polyrhythm.partition.pipeline import BalancedStages, KeepActivations, Pipelined, step_costs
from polyrhythm.partition.pipeline.step import steps_of
from polyrhythm.partition.rules.search import memory_minimal
from polyrhythm.partition.style import Style
from polyrhythm.partition.zero.zero import Zero
from polyrhythm.systems import resolve
from polyrhythm.tools.layouts.candidate import LayoutCandidate
from polyrhythm.tools.layouts.explanation import LayoutRefusal
from polyrhythm.tools.layouts.job import LayoutJob
from polyrhythm.tools.layouts.machines import Machines
from polyrhythm.tools.layouts.meshes import DATA, SITE, STAGES, TENSOR, meshes
from polyrhythm.tools.layouts.space import LayoutSpace
from polyrhythm.tools.measuring.recurrence import exchange_interval

Exchanging = tuple[dict[str, str | Strategy | Zero], str]
"""A strategy for each axis of replicas, and in words."""


@dataclasses.dataclass(frozen=True)
class Enumeration:
    """The layouts of `space` for a job on machines; what cannot be is added to `refused`."""

    job: LayoutJob
    machines: Machines
    space: LayoutSpace
    refused: list[LayoutRefusal] = dataclasses.field(default_factory=list)

    def candidates(self) -> Iterator[LayoutCandidate]:
        """All that may be legal."""
        for mesh in meshes(self.machines):
            sizes = dict(mesh.axes)
            replicas = prod(sizes.get(name, 1) for name in (SITE, DATA))
            if self.job.batch_size % replicas:
                self._refuse(
                    mesh, f"batches of {self.job.batch_size} samples cannot be divided among {replicas} replicas: choose a multiple."
                )
                continue
            try:
                tensor, stages = list(self._tensor(mesh)), list(self._stages(mesh, self.job.batch_size // replicas))
            except CompositionError as problem:
                self._refuse(mesh, str(problem))
                continue
            for exchanging, words in self._among(sizes):
                for styles, divided in tensor:
                    for pipelined, staged in stages:
                        aspects = {
                            "mesh": " × ".join(f"{name} {size}" for name, size in mesh.axes),
                            "tensor parallelism": divided,
                            **staged,
                        }
                        yield LayoutCandidate(mesh, Cut(styles, pipelined), exchanging or "allreduce", aspects | {"among replicas": words})

    def _refuse(self, mesh: Mesh, why: str) -> None:
        self.refused.append(LayoutRefusal(repr(mesh), why))

    @cached_property
    def _model(self) -> nn.Module:
        return build(self.job.make)[0]

    def _among(self, sizes: Mapping[str, int]) -> list[Exchanging]:
        """The ways to exchange among replicas."""
        space = self.space
        often: list[str | Strategy | Zero] = [*space.every_step, *map(Zero, space.zero)]
        if SITE in sizes:
            pairs = [(far, near) for far in space.among for near in often]
            return [({SITE: far, DATA: near}, f"{self._words(far)} outside, {self._words(near)} inside") for far, near in pairs]
        if sizes.get(DATA, 1) > 1:
            return [({DATA: each}, self._words(each)) for each in (*often, *space.among)]
        return [({}, "")]

    def _words(self, given: str | Strategy | Zero) -> str:
        if isinstance(given, Zero):
            return f"ZeRO {given.stage}"
        strategy = resolve(given)
        period = exchange_interval(strategy, self.machines.workers)
        return strategy.name + (f" every {period} steps" if period > 1 else "")

    def _tensor(self, mesh: Mesh) -> Iterator[tuple[Mapping[str, Style], str]]:
        """The ways to divide layers. Raises CompositionError for a model that has none."""
        size = dict(mesh.axes).get(TENSOR, 1)
        if size == 1:
            yield {}, ""
            return
        if self.space.rules is None:
            minimal = memory_minimal(self._model, {TENSOR: size})
            if not minimal and not self.space.styles:
                raise CompositionError(
                    "Nothing says how its layers are divided: name the dimensions of weights by partition.rules.dimensions, or give styles "
                    'in LayoutSpace(styles=({"*.up": Columns(), "*.down": Rows()},)).'
                )
            rules = [minimal] if minimal else []
        else:
            rules = [dict(each) for each in self.space.rules]
        for each in rules:
            yield self._by_speed(Cut.by_rules(self._model, each).names, mesh), "dividing " + ", ".join(each)
        for styles in self.space.styles:
            yield self._by_speed(styles, mesh), "dividing " + ", ".join(styles)

    def _by_speed(self, styles: Mapping[str, Style], mesh: Mesh) -> Mapping[str, Style]:
        """The styles with shares by the speeds of the workers."""
        speeds = self._speeds(mesh, TENSOR)
        if len(set(speeds)) == 1:
            return styles
        return {name: _weighted(style, speeds) for name, style in styles.items()}

    def _stages(self, mesh: Mesh, rows: int) -> Iterator[tuple[Pipelined | None, dict[str, str]]]:
        """The pipelines for a replica's batch of so many rows, and in words. Raises CompositionError for a model without steps."""
        ranks = dict(mesh.axes).get(STAGES, 1)
        if ranks == 1:
            yield None, {}
            return
        steps = steps_of(self._model)
        speeds, space = self._speeds(mesh, STAGES), self.space
        memories = space.memories if self.machines.memory is not None else space.memories[:1] or (KeepActivations(),)
        refusals, some = list[str](), False
        for schedule in space.schedules:
            stages = ranks * schedule.chunks
            division = BalancedStages(self._costs, None if len(set(speeds)) == 1 else speeds * schedule.chunks)
            if len(steps) < stages:
                refusals.append(f"A model of {len(steps)} steps cannot be {stages} stages: divide its steps further.")
                continue
            for parts in sorted({min(each, rows) for each in space.micro_batches}):
                if refused := schedule.refusal(ranks, parts):
                    refusals.append(refused)
                    continue
                some = True
                for memory in memories:
                    for boundary in space.boundaries:
                        words = {"schedule": _shown(schedule), "micro-batches": f"{parts} micro-batches", "boundary": _shown(boundary)}
                        words["recomputation"] = "" if memory == KeepActivations() else _shown(memory)
                        yield Pipelined(STAGES, parts, schedule, division, memory, boundary), words
        if not some:
            raise CompositionError(refusals[0] if refusals else "The space has no schedule for stages: give it one.")

    @cached_property
    def _costs(self) -> tuple[float, ...]:
        return step_costs(self._model, self.job.data[0][:1])

    def _speeds(self, mesh: Mesh, axis: str) -> tuple[float, ...]:
        """The speed of the slowest worker at each coordinate of an axis."""
        members = tuple(f"worker/{rank}" for rank in range(self.machines.workers))
        placed, found = WorkerMesh(mesh.axes, members), [1.0] * dict(mesh.axes)[axis]
        for member, speed in zip(members, self.machines.speeds, strict=True):
            at = placed.coordinate(member, axis)
            found[at] = min(found[at], speed)
        return tuple(found)


def _weighted(style: Style, speeds: tuple[float, ...]) -> Style:
    """The style with these shares, if it has shares."""
    if dataclasses.is_dataclass(style) and any(each.name == "weights" for each in dataclasses.fields(style)):
        weighted: Style = dataclasses.replace(style, weights=speeds)
        return weighted
    return style


def _shown(piece: object) -> str:
    """A piece in words: its class and the settings that it was given."""
    if not dataclasses.is_dataclass(piece):
        return repr(piece)
    given = [each for each in dataclasses.fields(piece) if getattr(piece, each.name) != _default(each)]
    return type(piece).__name__ + (f"({', '.join(f'{each.name}={getattr(piece, each.name)!r}' for each in given)})" if given else "")


def _default(field: dataclasses.Field[object]) -> object:
    return field.default_factory() if field.default_factory is not dataclasses.MISSING else field.default
