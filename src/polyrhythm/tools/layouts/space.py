"""The layouts that a plan chooses among."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from polyrhythm.core.settings import checked
from polyrhythm.core.strategy.strategy import Strategy
from polyrhythm.errors import CompositionError
from polyrhythm.partition.pipeline import Activations, DelayedPipeline, Exact, KeepActivations, OneForwardOneBackward, Recompute, SameDelay
from polyrhythm.partition.pipeline.boundary import Boundary
from polyrhythm.partition.pipeline.memory import Rematerialization
from polyrhythm.partition.pipeline.schedule import PipelineSchedule
from polyrhythm.partition.style import Style
from polyrhythm.systems import find


def _local_steps() -> tuple[str | Strategy, ...]:
    return (find("diloco", period=10),)


@dataclass(frozen=True, slots=True)
@checked
class LayoutSpace:
    """What may be chosen. Every mesh of the workers is tried, with each of these; an empty tuple leaves a kind out.

    Args:
        among: systems among replicas, beside `every_step`: they may be outside of an axis that exchanges in every step.
        every_step: systems that exchange in every step. zero: the stages of ZeRO in their place.
        rules: rules for tensor parallelism, dimension to "tp", by default those with the least memory; `styles` are given ones.
        schedules, boundaries, micro_batches, memories: of pipelines.
    """

    among: tuple[str | Strategy, ...] = field(default_factory=_local_steps)
    every_step: tuple[str | Strategy, ...] = ("allreduce",)
    zero: tuple[int, ...] = (1, 2, 3)
    rules: tuple[Mapping[str, str], ...] | None = None
    styles: tuple[Mapping[str, Style], ...] = ()
    schedules: tuple[PipelineSchedule, ...] = (OneForwardOneBackward(), DelayedPipeline(SameDelay(1)))
    boundaries: tuple[Boundary, ...] = (Exact(), Activations(4, 8))
    micro_batches: tuple[int, ...] = (8,)
    memories: tuple[Rematerialization, ...] = (KeepActivations(), Recompute())

    def __post_init__(self) -> None:
        if any(each < 1 for each in self.micro_batches):
            raise CompositionError(f"micro_batches={self.micro_batches} has a number that divides no batch: give numbers of 1 or more.")

    @property
    def exact(self) -> LayoutSpace:
        """The layouts that compute what one process computes."""
        schedules = tuple(each for each in self.schedules if not each.delay_of(0, 2, 2))
        boundaries = tuple(each for each in self.boundaries if not each.approximate)
        kept = (self.every_step, self.zero, self.rules, self.styles, schedules, boundaries, self.micro_batches, self.memories)
        return LayoutSpace((), *kept)
