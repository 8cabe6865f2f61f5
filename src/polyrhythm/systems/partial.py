"""Local steps, with averages of a random part of the weights."""

from __future__ import annotations

from polyrhythm.codec import SharedK
from polyrhythm.consistency import LocalSteps
from polyrhythm.core.strategy.strategy import Strategy
from polyrhythm.systems.declaration import Family, system
from polyrhythm.topology import AverageWeights, Ring


@system(Family.FEW_ELEMENTS, "2 (P − 1) M · ratio in 2 P (P − 1) messages; at the end 2 (P − 1) M", tau="period")
def sparta(ratio: float = 0.005, period: int = 1) -> Strategy:
    """Sparse parameter averaging (SPARTA; Beton, Baioumy, van der Ouderaa, Reed, Howes, Cheema, 2025, openreview stFPf3gzq1).

    Each worker steps by itself; after every `period` steps a `ratio` of the weights (0.0005 to 0.005 in the paper), drawn anew and the same
    everywhere, becomes their mean over all workers. Replicas differ by what is not averaged yet; the result is their mean. Optimizer state
    stays with each worker. The paper's averages of weights some steps old, and its combination with DiLoCo, are left out.
    """
    return Strategy(name="sparta", consistency=LocalSteps(period), topology=AverageWeights(Ring()), codec=SharedK(ratio))
