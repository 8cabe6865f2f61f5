"""A pipeline whose stages have replicas, as the training loop of one rank uses it: micro-batches take routes through these."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from polyrhythm.errors import CompositionError
from polyrhythm.partition.axis import Axis
from polyrhythm.partition.pipeline.actions import Backward, Forward, StageGrid
from polyrhythm.partition.pipeline.batch import Batch
from polyrhythm.partition.pipeline.engine import Way
from polyrhythm.partition.pipeline.given_elsewhere import GivenElsewhere
from polyrhythm.partition.pipeline.itinerary import Content, Itinerary
from polyrhythm.partition.pipeline.links import Links
from polyrhythm.partition.pipeline.mail import Mail
from polyrhythm.partition.pipeline.pass_timer import PassTimer
from polyrhythm.partition.pipeline.passes import PassedBatch, Passes
from polyrhythm.partition.pipeline.results import LossResults, OutputResults, Results
from polyrhythm.partition.pipeline.routed import RoutedLists, fitted
from polyrhythm.partition.pipeline.routes import AroundLost, RoutePlan, Sample, StageSeat, around
from polyrhythm.partition.pipeline.seats import Seats
from polyrhythm.partition.pipeline.stage import Stages
from polyrhythm.partition.pipeline.timetable import Durations

Do = Callable[[PassedBatch, Forward | Backward], None]


class RoutedPipeline:
    """The stages of one rank, and the training steps that it does with those along `seats`; `Pipelined.local` makes it for routes.

    It is used as `Pipeline` is, by the ranks of all replicas together. Gradients are those of the micro-batches that came to this seat:
    their mean over the replicas of a stage is that without routes, to rounding, if these have equal weights.
    """

    under_way = False

    def __init__(self, stages: Stages, axis: Axis, seats: Seats, way: Way, mail: Mail) -> None:
        self.module, self.way = stages.model, way
        self.plan: RoutePlan = AroundLost() if way.routes is None else way.routes
        self.lost: frozenset[StageSeat] = frozenset()
        self.stages = stages
        self.weights = way.schedule.weights(stages, axis, way.micro_batches)
        self.begun = self._taken = self._evaluations = 0
        self._among(seats, mail)

    def _among(self, seats: Seats, mail: Mail) -> None:
        self._seats, self.mail = seats, mail
        self.cuts = Links(seats, mail, self.way.boundary, self.way.seed)
        self._passes = Passes(self.stages, self.cuts, StageGrid(seats.stages), seats.own[0], self.way.memory)
        self._load = PassTimer(mail)

    def continue_among(self, seats: Seats, lost: frozenset[StageSeat]) -> None:
        """Seats are lost, and nothing is under way any more: `seats` are the same, along a new axis."""
        self.lost = lost
        self._among(seats, Mail(seats.axis, self.mail.device, self.mail.now))

    def step(self, inputs: Any, targets: Any, ids: Sequence[Hashable] | None = None) -> Tensor:
        """Add the gradients of the micro-batches that come to this rank, and return the loss of the batch that its replica was given.

        Raises CompositionError for a batch with fewer samples than there are micro-batches, WorkloadError for batches of unequal sizes.
        """
        batch = self._batch("step", self.begun, inputs, targets)
        self._plan_again()
        itinerary = self._itinerary(self.plan, self.begun)
        self.begun += 1
        self._taken += 1
        self.weights.begin(batch.number)
        with self._load.of(len(itinerary.lists.get(self._seats.own, ()))):
            loss: Tensor = self._passed(batch, itinerary, LossResults(), self._do)
        self.weights.finish(batch.number)
        self.mail.settle()
        return loss

    def remaining(self) -> Iterator[Tensor]:
        """Nothing is left between steps."""
        return iter(())

    def evaluate(self, inputs: Any, targets: Any) -> Tensor:
        """The loss of the batch without gradients, equal at all ranks of the replica. `module.eval()` before is the caller's."""
        objective = self.way.objective
        loss: Tensor = self._forward_only(inputs, targets, LossResults(), lambda of, each: self._passes.forward_only(of, each, objective))
        return loss

    def outputs(self, inputs: Any) -> Any:
        """What the whole model makes of the inputs, without gradients, equal at all ranks of the replica."""
        return self._forward_only(inputs, None, OutputResults(), lambda of, each: self._passes.forward_only(of, each, None))

    def _forward_only(self, inputs: Any, targets: Any, results: Results, do: Do) -> Any:
        batch = self._batch("evaluation", self._evaluations, inputs, targets)
        self._evaluations += 1
        found = self._passed(batch, self._itinerary(AroundLost(), 0).forward_only(), results, do)
        self.mail.settle()
        return found

    def _batch(self, kind: str, number: int, inputs: Any, targets: Any) -> Batch:
        batch = Batch.cut(kind, number, inputs, targets, self.way.micro_batches)
        if batch.micro_batches < self.way.micro_batches:
            raise CompositionError(
                f"A batch of {batch.samples} samples is fewer than micro_batches={self.way.micro_batches}, each of which has a route: "
                "give each batch at least so many, or use fewer micro-batches."
            )
        return replace(batch, replica=self._seats.own[1], draws=self.way.draws if kind == "step" else 0)

    def _plan_again(self) -> None:
        """Learn speeds once they are measured."""
        if self.plan.trial and self._taken == self.plan.trial:
            own = torch.tensor([self._load.speed], dtype=torch.float64, device=self.mail.device)
            self.plan = self.plan.measured(self._seats.of_all(own))

    def _itinerary(self, plan: RoutePlan, step: int) -> Itinerary:
        stages, replicas, micro_batches = self._seats.stages, self._seats.replicas, self.way.micro_batches
        paths = around(plan.paths(stages, replicas, micro_batches, step), self.lost, replicas)
        kept = tuple(self.way.schedule.live(stage, stages, micro_batches) for stage in range(stages))
        lists = _lists(tuple(paths.items()), tuple(plan.durations(stages, replicas).items()), kept)
        return Itinerary(paths, lists, stages, replicas, self.lost)

    def _passed(self, batch: Batch, itinerary: Itinerary, results: Results, do: Do) -> Any:
        """The result of the batch, when this seat's list is done."""
        kind, number, own = batch.key
        self.cuts.begin(kind, number, itinerary, lambda rank, count: results.receive(self.mail, rank, count))
        self._give(batch, itinerary)
        batches: dict[int, PassedBatch] = {own: batch}
        for giver in range(self._seats.replicas):
            if giver != own:
                draws = replace(self.way, replica=self._seats.numbers[giver]).draws if kind == "step" else 0
                batches[giver] = GivenElsewhere((kind, number, giver), draws, batch, self.cuts)
        for each in itinerary.lists.get(self._seats.own, ()):
            do(batches[each.sample[0]], Backward(each.sample[1]) if each.backward else Forward(each.sample[1]))
        return self._told(batch, {giver: each.made for giver, each in batches.items()}, itinerary, results)

    def _do(self, batch: PassedBatch, action: Forward | Backward) -> None:
        self._passes.do(batch, action, self.way.objective)

    def _give(self, batch: Batch, itinerary: Itinerary) -> None:
        """Send the parts of the batch that others do."""
        for target, parcel in itinerary.given(self._seats.own):
            inputs, targets = batch.part(parcel.sample[1])
            if parcel.content is Content.INPUTS:
                self.cuts.give(batch, target, parcel, inputs, 1.0)
            elif targets is not None:
                self.cuts.give(batch, target, parcel, targets, self.way.objective.share(targets, batch.targets))

    def _told(self, batch: Batch, made: dict[int, dict[int, Any]], itinerary: Itinerary, results: Results) -> Any:
        """The result of the own batch, after others were told what was made here of theirs."""
        seat, own = self._seats.own, batch.replica
        for target, parcel in itinerary.results(seat):
            of = made[parcel.sample[0]]
            self.cuts.tell(batch.key, target, parcel, results.packed([of[micro] for micro in sorted(of)]))
        found: dict[int, Any] = dict(made[own])
        for replica in range(self._seats.replicas):
            last = self._seats.stages - 1, replica
            if last != seat and (micros := itinerary.done(last, own)):
                found |= zip(micros, results.parts(self.cuts.told(batch.key, replica), len(micros)), strict=True)
        return results.whole([found[micro] for micro in sorted(found)])


@lru_cache(maxsize=8)
def _lists(
    paths: tuple[tuple[Sample, tuple[int, ...]], ...], durations: tuple[tuple[StageSeat, Durations], ...], kept: tuple[int, ...]
) -> RoutedLists:
    """The lists of all seats, which all of them make alike."""
    return fitted(dict(paths), dict(durations), kept.__getitem__)
