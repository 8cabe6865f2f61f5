"""Least completion time: the machine that is done first with all that it has and the new request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from polyrhythm.core.settings import checked
from polyrhythm.serving.routing.destination import Destination, Routed


@dataclass(frozen=True, slots=True)
@checked
class LeastCompletionTime:
    """Take the machine with the least seconds of work, the new request included: by cost, for machines that are unequal."""

    def route(
        self, destinations: Sequence[Destination], credits: Mapping[str, float], patience: float, draws: np.random.Generator
    ) -> Routed:
        """The machine that is done first."""
        return Routed(min(range(len(destinations)), key=lambda i: (destinations[i].seconds + destinations[i].cost, i)), credits)
