"""Power of two choices: the shorter of two queues, by count."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from polyrhythm.core.settings import checked
from polyrhythm.serving.routing.destination import Destination, Routed


@dataclass(frozen=True, slots=True)
@checked
class PowerOfTwoChoices:
    """Draw two machines and take the one with fewer requests (Mitzenmacher, 2001), as Ray Serve does: it sees neither cost nor speed."""

    def route(
        self, destinations: Sequence[Destination], credits: Mapping[str, float], patience: float, draws: np.random.Generator
    ) -> Routed:
        """The less busy of two drawn machines, by the number of requests that wait or run."""
        drawn = draws.permutation(len(destinations))[:2]
        return Routed(int(min(drawn, key=lambda index: destinations[index].queued)), credits)
