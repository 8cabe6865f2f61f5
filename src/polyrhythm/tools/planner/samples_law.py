"""A law of the samples that candidates need to the target, over numbers of workers, total batches and rates, with its error.

The logarithm of the samples is a sum of terms whose sizes are learned from the runs so far, by Bayesian linear regression (Bishop, 2006,
section 3.3): what one system's runs taught serves the others, and what was not tried has an error that says so.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from polyrhythm.tools.planner.learning_curves import Needed

Array = NDArray[np.float64]
Terms = Mapping[str, float]
"""The terms of a candidate by name; those of a system begin with its name and a colon."""

OWN = 0.2
"""The deviation of a candidate from the law, of its logarithm."""
_SYSTEM = 0.6
_COUNTED = 4.0
"""The deviation between systems counts like so many of them, beside those that were seen."""
PRIORS: Mapping[str, tuple[float, float]] = {
    "one": (0.0, 1.5),
    "batch": (0.6, 0.4),  # by the total batch: 1 where steps count, 0 where samples do (McCandlish et al., 2018, arXiv:1812.06162)
    "rate": (-0.4, 0.4),
    "rate squared": (0.15, 0.1),
    "apart": (0.3, 0.4),  # not in lockstep
    "length": (0.0, 0.3),
}
"""The mean and the deviation of the size of each term before anything was run. Batches and rates are in e-folds."""
_OWN_TERMS: Mapping[str, float] = {"workers": 0.3, "rate": 0.4, "option": 0.5}
"""The deviations of the terms of a system."""


@dataclass(frozen=True, slots=True)
class Observation:
    """The samples that a candidate of these terms needed, or will."""

    terms: Terms
    needed: Needed


@dataclass(slots=True)
class SamplesLaw:
    """The law for a JOB of so many samples, from what was observed; candidates to be predicted have no other terms than `known`."""

    samples: float
    observed: Sequence[Observation]
    known: Sequence[Terms] = ()
    names: dict[str, int] = field(init=False)
    mean: Array = field(init=False)
    covariance: Array = field(init=False)

    def __post_init__(self) -> None:
        every = [*(each.terms for each in self.observed), *self.known]
        self.names = {name: place for place, name in enumerate(dict.fromkeys(name for terms in every for name in terms))}
        self._fit(_SYSTEM)
        systems = [place for name, place in self.names.items() if name.endswith(":") and any(name in each.terms for each in self.observed)]
        squares = float((self.mean[systems] ** 2 + self.covariance[systems, systems]).sum())
        self._fit(math.sqrt((_COUNTED * _SYSTEM**2 + squares) / (_COUNTED + len(systems))))

    def predicted(self, terms: Sequence[Terms]) -> tuple[Array, Array]:
        """The means of the logarithms, and their deviations, without those of each candidate's own."""
        rows = self.rows(terms)
        spread = np.einsum("ij,jk,ik->i", rows, self.covariance, rows)
        return rows @ self.mean + math.log(self.samples), np.sqrt(np.maximum(spread, 0.0))

    def rows(self, terms: Sequence[Terms]) -> Array:
        """The terms as a matrix."""
        found = np.zeros((len(terms), len(self.names)))
        for row, each in enumerate(terms):
            for name, value in each.items():
                found[row, self.names[name]] = value
        return found

    def _fit(self, between: float) -> None:
        before, spread = np.array([_prior(name, between) for name in self.names]).reshape(-1, 2).T
        precision, towards = np.diag(1 / spread**2), before / spread**2
        rows = self.rows([each.terms for each in self.observed])
        weights = np.array([1 / (each.needed.deviation**2 + OWN**2) for each in self.observed])
        values = np.array([each.needed.mean - math.log(self.samples) for each in self.observed])
        precision = precision + (rows.T * weights) @ rows
        self.covariance = np.linalg.inv(precision)
        self.mean = self.covariance @ (towards + (rows.T * weights) @ values)


def _prior(name: str, between: float) -> tuple[float, float]:
    if name in PRIORS:
        return PRIORS[name]
    kind = name.partition(":")[2]
    return 0.0, _OWN_TERMS[kind.partition("=")[0]] if kind else between
