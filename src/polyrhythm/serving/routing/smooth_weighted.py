"""Smooth weighted round-robin: the rates of the plan, without runs of requests to one machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from polyrhythm.core.settings import checked
from polyrhythm.serving.routing.destination import Destination, Routed


@dataclass(frozen=True, slots=True)
@checked
class SmoothWeighted:
    """Give every machine its part by the plan's weights, evenly spaced, as nginx does; spill to the least occupied where it would be late.

    Each machine gains its weight as credit, the richest is chosen and pays the sum of all weights.
    """

    def route(
        self, destinations: Sequence[Destination], credits: Mapping[str, float], patience: float, draws: np.random.Generator
    ) -> Routed:
        """The machine whose turn it is, or the one that is soonest done if that one cannot answer in time."""
        raised = {each.machine: credits.get(each.machine, 0.0) + each.weight for each in destinations}
        index = max(range(len(destinations)), key=lambda i: (raised[destinations[i].machine], -i))
        raised[destinations[index].machine] -= sum(each.weight for each in destinations)
        if destinations[index].seconds + destinations[index].latency > patience:
            index = min(range(len(destinations)), key=lambda i: (destinations[i].seconds + destinations[i].latency, i))
        return Routed(index, raised)
