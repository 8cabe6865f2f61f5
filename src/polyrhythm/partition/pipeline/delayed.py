"""Pipelines that are never emptied: gradients are used late, in return for ranks that do not wait for each other between batches."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from torch.optim import Optimizer

from polyrhythm.partition.axis import Axis
from polyrhythm.partition.pipeline.actions import Action, Actions, Backward, Forward
from polyrhythm.partition.pipeline.stage import Stages
from polyrhythm.partition.pipeline.stashed_weights import StashedWeights
from polyrhythm.partition.pipeline.weights import CurrentWeights, StageWeights


class PipelineDelay(Protocol):
    """How many training steps late each rank uses its gradients."""

    def of(self, rank: int, ranks: int, micro_batches: int) -> int:
        """For the rank; no less than for the ranks after it."""


@dataclass(frozen=True, slots=True)
class SameDelay:
    """So many steps at all ranks. One step is PipeDream-2BW (Narayanan et al., 2021); none empties the pipeline in each step."""

    steps: int = 1

    def of(self, rank: int, ranks: int, micro_batches: int) -> int:
        return self.steps


@dataclass(frozen=True, slots=True)
class DelayByDepth:
    """As many as a batch is under way from the rank to the last one and back: PipeDream's P - i, where a batch is one micro-batch."""

    def of(self, rank: int, ranks: int, micro_batches: int) -> int:
        return -(-(ranks - 1 - rank) // micro_batches)


@dataclass(frozen=True, slots=True)
class DelayedPipeline:
    """One forward and one backward pass in turn, from one batch into the next; each gradient is of the weights that its forward pass had.

    At rank i the update of step t uses the gradient at the weights of step t - `delay`. With `look_ahead`, gradients are taken at the point
    to which that much of the last change would lead: give it the optimizer's momentum, and they are Nesterov's (Ajanthan et al., 2025).
    """

    delay: PipelineDelay = field(default_factory=SameDelay)
    look_ahead: float = 0.0

    @property
    def chunks(self) -> int:
        return 1

    def refusal(self, ranks: int, micro_batches: int) -> str:
        if not 0 <= self.look_ahead < 1:
            return f"look_ahead={self.look_ahead} is no momentum: give a number from 0 to below 1."
        delays = [self.delay.of(rank, ranks, micro_batches) for rank in range(ranks)]
        if min(delays) < 0 or delays != sorted(delays, reverse=True):
            return f"Delays of {delays} steps cannot be: give 0 or more, and none more than the rank before it has."
        return ""

    def actions(self, rank: int, ranks: int, micro_batches: int) -> Actions:
        lag = self._lag(rank, ranks, micro_batches)
        warmup = min(micro_batches, ranks - 1 - rank - lag)
        found: list[Action] = list(map(Forward, range(warmup)))
        for micro in range(warmup, micro_batches):
            found += [Forward(micro), Backward(micro - warmup - lag)]
        return [*found, *(Backward(micro - lag) for micro in range(micro_batches - warmup, micro_batches))]

    def _lag(self, rank: int, ranks: int, micro_batches: int) -> int:
        """By how many micro-batches backward passes are behind at the end of a step."""
        return min(ranks - 1 - rank, self.delay.of(rank, ranks, micro_batches) * micro_batches)

    def live(self, rank: int, ranks: int, micro_batches: int) -> int:
        return min(ranks - rank, self._lag(rank, ranks, micro_batches) + micro_batches)

    def delay_of(self, rank: int, ranks: int, micro_batches: int) -> int:
        return self.delay.of(rank, ranks, micro_batches)

    def copies(self, rank: int, ranks: int, micro_batches: int) -> int:
        """The copies of the rank's weights that are kept from one step to the next; within a step there is one more."""
        return -(-self._lag(rank, ranks, micro_batches) // micro_batches) + (self.look_ahead > 0)

    def weights(self, stages: Stages, axis: Axis, micro_batches: int) -> StageWeights:
        delay, lag = self.delay.of(axis.index, axis.size, micro_batches), self._lag(axis.index, axis.size, micro_batches)
        if not self.delay.of(0, axis.size, micro_batches) and not self.look_ahead:
            return CurrentWeights(stages, axis)
        return StashedWeights(stages.model, delay, -(-lag // micro_batches), self.look_ahead)

    def warning(self, optimizer: Optimizer, ranks: int, micro_batches: int) -> str:
        """What is known to go wrong with this optimizer; "" if nothing is."""
        defaults = optimizer.defaults
        momentum = defaults["betas"][0] if "betas" in defaults else defaults.get("momentum", 0.0)
        if self.look_ahead and momentum != self.look_ahead:
            return f"look_ahead={self.look_ahead} is meant to be the optimizer's momentum, which is {momentum}: give both the same."
        if "betas" in defaults and not self.look_ahead and self.delay.of(0, ranks, micro_batches):
            return (
                f"{type(optimizer).__name__} trains worse with delayed gradients: give look_ahead={momentum}, use an optimizer that bears "
                "them, such as SGD or Muon, or SameDelay(0)."
            )
        return ""
