"""Runs whose gradients are computed side by side, and one by one where their training function cannot be computed so."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from polyrhythm.core.kernel.job import Runtime
from polyrhythm.core.simulator import OneByOne, Simulator
from polyrhythm.core.training.run import Attempt
from polyrhythm.errors import GradientsError


def or_one_by_one(on: Runtime, make: Callable[[Runtime], Attempt]) -> Attempt:
    """Make a run `on` a runtime; again, one by one, where only steps that differ have ended it. Its settings say so."""
    tried = make(on)
    if not isinstance(tried.error, GradientsError) or not isinstance(on, Simulator):
        return tried
    again = make(replace(on, gradients=OneByOne()))
    again.outcome.settings["gradients"] = f"one by one: {tried.error}"
    return again
