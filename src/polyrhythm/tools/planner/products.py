"""Products of amounts that may be infinite, such as the seconds of a run that never comes to its target."""

from __future__ import annotations

import math


def product(*factors: float) -> float:
    """The product of what is not negative; 0 where a factor is 0, and not NaN where another is infinite: hours at no price cost nothing."""
    return 0.0 if 0 in factors else math.inf if math.inf in factors else math.prod(factors)
