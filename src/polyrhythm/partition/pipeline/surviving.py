"""A pipeline that goes on when seats of its stages are lost (Gandhi et al., 2024, "ReCycle")."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from polyrhythm.errors import CompositionError, StateLostError, WorkloadError
from polyrhythm.partition.axis import Axis
from polyrhythm.partition.pipeline.routed_pipeline import RoutedPipeline
from polyrhythm.partition.pipeline.routes import StageSeat
from polyrhythm.partition.pipeline.seats import Seats


@dataclass(frozen=True, slots=True)
class Survivors:
    """Who is there: the `seats`, without those `lost`; the axes of the `replicas` of the own stage that are left, and of `everyone`."""

    seats: Seats
    lost: frozenset[StageSeat]
    replicas: Axis
    everyone: Axis


class SurvivingPipeline:
    """`routed`, whose steps are complete at all ranks or at none: what a loss has interrupted is done again by those who are left.

    Gradients are averaged over the replicas of a stage before a step ends, so that nobody needs anything of another for it afterwards. It
    ends when all have them. Raises CompositionError for tied weights.
    """

    under_way = False

    def __init__(self, routed: RoutedPipeline, survivors: Survivors) -> None:
        if routed.stages.tied:
            raise CompositionError(
                f"{routed.stages.tied[0].name} is one weight at several stages, whose copies would differ in rounding once a replica of "
                "one of them is lost: give each stage its own, a division that has them in one stage, or a crew that does not change."
            )
        self.module, self.routed, self._survivors = routed.module, routed, survivors
        self._parameters = [each for each in routed.module.parameters() if each.requires_grad]
        self._loss: Tensor | None = None
        self._under_way = self._complete = False

    @property
    def begun(self) -> int:
        """The number of the next batch."""
        return self.routed.begun

    @begun.setter
    def begun(self, number: int) -> None:
        self.routed.begun = number

    def step(self, inputs: Any, targets: Any, ids: Sequence[Hashable] | None = None) -> Tensor:
        """As that of the pipeline; after an interruption it is called with the same batch again.

        Raises WorkloadError for gradients that are not cleared.
        """
        if not self._under_way:
            if any(each.grad is not None and each.grad.any() for each in self._parameters):
                raise WorkloadError(
                    "A training step began with gradients of another, and where workers may be lost each is followed by optimizer.step(), "
                    "by which others see that it is complete: call optimizer.zero_grad() before it, and use more micro-batches."
                )
            self._under_way = True
        if not self._complete:
            for each in self._parameters:
                each.grad = None
            number = self.begun
            try:
                loss = self.routed.step(inputs, targets, ids)
                self._average()
                self._loss = loss
                self._survivors.everyone.all_reduce(torch.zeros(1, device=loss.device))
                number = self.begun
            finally:
                self.begun = number  # a step that is done again draws the same
        self.begun += self._complete
        assert self._loss is not None, "it is complete"
        found, self._loss, self._under_way, self._complete = self._loss, None, False, False
        return found

    def _average(self) -> None:
        """The mean over all replicas of the stage, of which some do the work of lost ones; None for what has no gradient at any."""
        known = torch.tensor([each.grad is not None for each in self._parameters], dtype=torch.float32)
        total = self._survivors.replicas.all_reduce(known)
        for each, count in zip(self._parameters, total.tolist(), strict=True):
            if count:
                own = torch.zeros_like(each) if each.grad is None else each.grad
                each.grad = self._survivors.replicas.all_reduce(own) / self._survivors.seats.replicas

    def continue_among(self, survivors: Survivors, trained: int) -> None:
        """Seats are lost. A step below `trained`, the number of those that some rank has completed, is complete: all have its gradients.

        That rank may not have come to the optimizer yet, and does not do the step again.
        Raises StateLostError where nobody has a stage, or the samples of a replica.
        """
        self._refuse_without_any(survivors)
        self._survivors = survivors
        self._complete = self._loss is not None and trained > self.begun
        if not self._complete:
            self._loss = None
        self.routed.continue_among(survivors.seats, survivors.lost)

    @staticmethod
    def _refuse_without_any(survivors: Survivors) -> None:
        stages, replicas = range(survivors.seats.stages), range(survivors.seats.replicas)
        for what, seats in (
            *((f"stage {stage}", [(stage, each) for each in replicas]) for stage in stages),
            *((f"replica {replica}, with the samples that it is given,", [(each, replica) for each in stages]) for replica in replicas),
        ):
            if survivors.lost.issuperset(seats):
                raise StateLostError(
                    f"All workers of {what} are lost: start the run again from its newest checkpoint, on a mesh for the workers that are "
                    "left, such as one of the PipelineTemplates has."
                )

    def remaining(self) -> Iterator[Tensor]:
        """Nothing is left between steps."""
        return iter(())
