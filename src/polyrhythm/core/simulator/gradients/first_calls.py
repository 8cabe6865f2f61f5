"""The first call of each kind: computed as always, to see whether such calls can be computed together, and what a step costs."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from polyrhythm.core.simulator.gradients.calls import NO_BACKWARD, CallKind, ComputingProgram, FirstCall, ModelSeat
from polyrhythm.core.simulator.gradients.sameness import settings_of_modules, versions
from polyrhythm.core.simulator.gradients.values import UnknownValue, shape_of

STACKED_BYTES = 2**20
"""Weights of so many bytes are stacked at most: beyond the caches a stack is slower than single calls."""
LEAST, MOST = 4, 16
"""Fewer workers are not stacked, for a small stack costs as much as it saves; nor are more."""


class FirstCalls:
    """Follows the one that is under way: until its step is charged, no other program runs."""

    def __init__(self) -> None:
        self.now: FirstCall | None = None

    def compute(self, seat: ModelSeat, kind: CallKind, forward: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Compute the call, and note what it does besides."""
        first = self.now = FirstCall(seat.program, kind, seat.program.flops)
        drawn, written, settings = _drawn(), versions(seat), settings_of_modules(seat.modules)
        out = forward(seat.model, *args, **kwargs)
        many = min(MOST, STACKED_BYTES // max(1, seat.nbytes))
        kind.most = many if seat.code is not None and many >= LEAST else 1
        if seat.code is None:
            kind.apart = "it has attributes that may differ between workers"
        elif kind.most == 1:
            kind.apart = "it is large"
        if versions(seat) != written:
            kind.most, kind.apart = 1, "its forward pass writes to buffers"
        try:
            shape_of(out)
        except UnknownValue as found:
            seat.refusal = str(found)
        if _drawn() != drawn:
            seat.refusal = "its forward pass draws random numbers"
        if settings_of_modules(seat.modules) != settings:
            seat.refusal = "its forward pass changes its attributes"
        if seat.refusal:
            first.reason = seat.refusal
        return out

    def swept(self, again: bool) -> None:
        """A backward pass of its program is over."""
        assert self.now is not None
        if again:
            self.refuse("its graph is kept after backward()")
        elif self.now.reason == NO_BACKWARD:
            self.now.reason = ""
        elif not self.now.reason:
            self.refuse("a step has several backward passes")

    def refuse(self, reason: str) -> None:
        """Such calls cannot be computed together."""
        assert self.now is not None
        self.now.reason = reason

    def end(self, program: ComputingProgram, flops: int) -> None:
        """Its step is charged, of so many operations."""
        if self.now is not None and self.now.program is program:
            kind, first = self.now.kind, self.now
            kind.reason = first.reason if flops >= first.before else "its operations are not charged"
            kind.flops = flops - first.before
            self.now = None


def _drawn() -> tuple[Any, ...]:
    """The states of the global random generators."""
    name, words, *rest = np.random.get_state()
    return torch.default_generator.get_state().numpy().tobytes(), random.getstate(), name, bytes(np.asarray(words)), tuple(rest)
