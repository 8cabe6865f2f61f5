"""A unit as a detector: the best one of many, with its threshold, on labelled samples, and how often it is right on others."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class Detector:
    """Says yes where the response of `unit` is above `threshold`, or, unless it is `upward`, at most that."""

    unit: int
    threshold: float
    upward: bool

    def accuracy(self, responses: np.ndarray, have: np.ndarray) -> float:
        """The percentage of samples with responses (n, units) that it is right on; `have` (n,) says which have what is looked for."""
        return float(100 * np.mean(((responses[:, self.unit] > self.threshold) == self.upward) == have))


def best_detector(responses: np.ndarray, have: np.ndarray) -> Detector:
    """The unit, the threshold and the direction that are right most often on samples with responses (n, units)."""
    count = len(have)
    order = np.argsort(responses, axis=0, kind="stable")
    positives = have[order].astype(np.int64).cumsum(axis=0)
    below = np.arange(1, count + 1)[:, None]
    right = (below - positives) + (have.sum() - positives)  # those without at most the threshold, and those with it above
    place, unit = np.unravel_index(np.maximum(right, count - right).argmax(), right.shape)
    return Detector(int(unit), float(responses[order[place, unit], unit]), bool(right[place, unit] >= count - right[place, unit]))
