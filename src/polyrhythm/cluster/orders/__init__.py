"""Order policies: which job comes first."""

from polyrhythm.cluster.orders.first_in import FirstIn as FirstIn
from polyrhythm.cluster.orders.least_attained import LeastAttained as LeastAttained
from polyrhythm.cluster.orders.shortest_remaining import ShortestRemaining as ShortestRemaining

MEMBERS = (FirstIn(), LeastAttained(), ShortestRemaining())

__all__ = ["MEMBERS", "FirstIn", "LeastAttained", "ShortestRemaining"]
