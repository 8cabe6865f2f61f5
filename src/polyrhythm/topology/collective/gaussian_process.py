"""A Gaussian process over a few settings, and where to look next: Bayesian optimisation in the plane."""

from __future__ import annotations

from dataclasses import dataclass
from math import erf

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class GaussianProcess:
    """Regression with a squared-exponential kernel of this `length`, and noise of that variance (Rasmussen and Williams, 2006, ch. 2).

    Values are standardised, so that the kernel has variance 1.
    """

    length: float
    noise: float

    def predict(self, seen: Array, values: Array, at: Array) -> tuple[Array, Array]:
        """Mean and standard deviation (n,) at the points `at` (n, d), after `values` (m,) were seen at the points `seen` (m, d)."""
        centre, scale = values.mean(), values.std() or 1.0
        root = np.linalg.cholesky(self._kernel(seen, seen) + self.noise * np.eye(len(seen)))
        between = self._kernel(at, seen)
        weights = np.linalg.solve(root.T, np.linalg.solve(root, (values - centre) / scale))
        explained = np.linalg.solve(root, between.T)
        deviation = np.sqrt(np.maximum(1e-12, 1 - (explained**2).sum(axis=0)))
        return centre + scale * (between @ weights), scale * deviation

    def _kernel(self, a: Array, b: Array) -> Array:
        distances = ((a[:, None, :] - b[None, :, :]) ** 2).sum(axis=2)
        return np.asarray(np.exp(-distances / (2 * self.length**2)), dtype=np.float64)


def expected_improvement(mean: Array, deviation: Array, best: float) -> Array:
    """By how much each point is expected to exceed `best` (Jones, Schonlau, Welch, 1998)."""
    z = (mean - best) / deviation
    density = np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)
    below = np.array([(1 + erf(each / np.sqrt(2))) / 2 for each in z])
    return np.asarray((mean - best) * below + deviation * density, dtype=np.float64)
