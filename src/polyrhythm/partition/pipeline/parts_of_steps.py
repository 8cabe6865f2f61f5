"""Which part of the model each weight of a stage belongs to, where the replicas of a pipeline are cut at different steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import nn

from polyrhythm.core.protocols.partition import follow_owner, follows_owner, note_part
from polyrhythm.errors import CompositionError
from polyrhythm.partition.pipeline.engine import Pipeline
from polyrhythm.partition.pipeline.step import steps_of, within
from polyrhythm.partition.placement import placement_of


@dataclass(frozen=True, slots=True)
class PartsOfSteps:
    """The `modules` that the steps of a whole model name, each with the part of its step; None for another worker's.

    `tied` has the names of each tensor that has several.
    """

    modules: tuple[tuple[str, int | None], ...]
    tied: Mapping[str, tuple[str, ...]]

    @staticmethod
    def of(model: nn.Module, parts: Sequence[int | None]) -> PartsOfSteps:
        """Those of a model before it is cut, whose steps belong to these parts. Raises CompositionError for another number of steps."""
        steps = steps_of(model)
        if len(steps) != len(parts):
            raise CompositionError(
                f"The replicas are divided for a model of {len(parts)} steps, and this one has {len(steps)}: give GivenStages, or costs of "
                "BalancedStages, for its own."
            )
        names: dict[int, list[str]] = {}
        for name, each in (*model.named_parameters(remove_duplicate=False), *model.named_buffers(remove_duplicate=False)):
            names.setdefault(id(each), []).append(name)
        tied = {name: tuple(own) for own in names.values() for name in own if len(own) > 1}
        modules = tuple((name, part) for step, part in zip(steps, parts, strict=True) for name in step.modules)
        return PartsOfSteps(modules, tied)

    def part(self, name: str) -> int | None:
        """The part of a parameter or buffer: that of the first step that uses it; None for another worker's, or one of no step."""
        names = self.tied.get(name, (name,))
        return next((part for module, part in self.modules if any(within(each, module) for each in names)), None)

    def note(self, stage: nn.Module) -> None:
        """Note the part of each parameter and buffer of a worker's stage; copies of tied weights follow their owner.

        Raises CompositionError for a stage that has nothing else to train.
        """
        for name, tensor in (*stage.named_parameters(), *stage.named_buffers()):
            if placement_of(tensor).copy_of:
                follow_owner(tensor)
            elif (part := self.part(name)) is not None:
                note_part(tensor, part)
        trained = [(name, each) for name, each in stage.named_parameters() if each.requires_grad]
        if trained and all(follows_owner(each) for _, each in trained):
            raise CompositionError(
                f"A stage has {trained[0][0]} and nothing else to train, which is tied to {placement_of(trained[0][1]).copy_of} of another "
                "stage and trained there: give the stage another step, or one stage both."
            )


class TiedCopies:
    """Gives the copies of tied weights in one replica the values of their owners, which alone are trained and exchanged.

    Holders of a weight are others in each replica where replicas are cut at different steps, so that copies have nobody to exchange with.
    """

    def __init__(self, pipeline: Pipeline) -> None:
        self._stage, self._tied, self._axis = pipeline.module, pipeline.tied, pipeline.axis

    def follow(self) -> None:
        """Take the owners' present values, and drop the copies' gradients, which the owners have too."""
        for tied in self._tied:
            parameter, (owner, *others) = self._stage.get_parameter(tied.name), tied.holders
            if self._axis.index == owner:
                self._axis.exchange(dict.fromkeys(others, parameter.detach()), {}, parameter)
            else:
                value = self._axis.exchange({}, {owner: parameter.shape}, parameter)[owner]
                parameter.grad = None
                with torch.no_grad():
                    parameter.copy_(value)


def follow_owners(every: Sequence[TiedCopies]) -> None:
    """Have the copies of all pipelines follow."""
    for copies in every:
        copies.follow()
