"""Constraints that weights must satisfy after every update: functions of the user, which run where the weights are held."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from polyrhythm.core.strategy.local_part import LocalPart
from polyrhythm.errors import CompositionError

Constraint = Callable[[Any], object]
"""Takes the model, and writes to its parameters: clips them, bounds their norms, multiplies them by masks."""


class Constraints:
    """`functions` that are applied to `model`, one after the other, without gradients."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.functions: list[Constraint] = []

    def add(self, function: Constraint, parts: Sequence[LocalPart], system: str) -> None:
        """Apply `function` now, and from now on. Raises CompositionError where the weights are not held by the workers."""
        if any(part.writes.started_elsewhere for part in parts):
            raise CompositionError(
                f"worker.constrain: under {system} the weights are held by servers, hubs or streams, which have parts of them and cannot "
                "call a function of yours: take a system whose workers hold the weights (allreduce, local-sgd, diloco, gossipgrad, …), or "
                "let the model compute its weights from free parameters (torch.nn.utils.parametrize), which every system trains."
            )
        self.functions.append(function)
        self.apply(parts)

    def apply(self, parts: Sequence[LocalPart]) -> None:
        """Apply all functions to the weights. Workers that agree on the weights before also agree on them afterwards."""
        if not self.functions:
            return
        apart = [(state, part.shifts) for part in parts for state in part.states if state.anchor is not state.weights]
        with torch.no_grad():
            before = [state.weights.clone() if shifts or torch.equal(state.anchor, state.weights) else None for state, shifts in apart]
            for function in self.functions:
                function(self.model)
            for (state, _), weights in zip(apart, before, strict=True):
                if weights is not None:
                    state.anchor.add_(state.weights - weights)
        for part in parts:
            part.writes.note(resumed=part.writes.resumed)
