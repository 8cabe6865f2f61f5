"""Straight lines through points, by weighted least squares: α-β models of interconnects, and power laws on logarithmic axes."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from polyrhythm.errors import CompositionError


class LineFit(msgspec.Struct, frozen=True):
    """y = `start` + `slope` x; `r_squared` is the part of the variance of y that it explains, without weights."""

    start: float
    slope: float
    r_squared: float

    def at(self, x: float) -> float:
        """The line's y at `x`."""
        return self.start + self.slope * x


def fitted(x: Sequence[float], y: Sequence[float], weights: Sequence[float] | None = None) -> LineFit:
    """The line that minimizes the weighted sum of squares. Raises CompositionError for fewer than two different x.

    Examples:
        >>> fitted([0, 1, 2], [1, 3, 5])
        LineFit(start=1.0, slope=2.0, r_squared=1.0)
    """
    if len(set(x)) < 2:
        raise CompositionError(f"A line needs points at two places at least, and these are at {sorted(set(x))}: measure more.")
    across, up = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    weighted = np.ones_like(across) if weights is None else np.asarray(weights, dtype=float)
    middle, height = np.average(across, weights=weighted), np.average(up, weights=weighted)
    slope = np.sum(weighted * (across - middle) * (up - height)) / np.sum(weighted * (across - middle) ** 2)
    start = height - slope * middle
    left, whole = np.sum((up - start - slope * across) ** 2), np.sum((up - up.mean()) ** 2)
    return LineFit(float(start), float(slope), float(1 - left / whole) if whole else 1.0)
