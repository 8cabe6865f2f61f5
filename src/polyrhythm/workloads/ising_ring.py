"""An Ising model on a ring in which each spin depends on its two nearest neighbours on each side, and its exact marginals."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from polyrhythm.core import rng

Array = NDArray[np.float64]
OFFSETS = (1, 2)
_DEGREE = 2 * len(OFFSETS)
_SPINS = np.array([-1.0, 1.0])


@dataclass(frozen=True, slots=True)
class IsingRing:
    """Probability of spins s: exp(Σ h_i s_i + Σ J_ij s_i s_j) over a constant.

    `fields` (n,) are h; `couplings` (2, n) are those of spin i with i + 1 and with i + 2, modulo n.
    """

    fields: Array
    couplings: Array

    @staticmethod
    def drawn(spins: int, influence: float, field: float, seed: int) -> IsingRing:
        """Random signs; for every spin Σ tanh |J_ij| is at most `influence`, so that Dobrushin's condition holds below 1."""
        draw = rng.stream(seed, "ising", "model")
        largest = math.atanh(influence / _DEGREE)
        couplings = largest * draw.uniform(0.5, 1.0, (len(OFFSETS), spins)) * draw.choice(_SPINS, (len(OFFSETS), spins))
        return IsingRing(field * draw.uniform(-1.0, 1.0, spins), couplings)

    def neighbours(self, spin: int) -> tuple[list[int], Tensor]:
        """The spins on which `spin` depends, and its couplings (4,) with them."""
        n = len(self.fields)
        after = [(spin + offset) % n for offset in OFFSETS]
        before = [(spin - offset) % n for offset in OFFSETS]
        strengths = [self.couplings[k, spin] for k in range(len(OFFSETS))] + [self.couplings[k, each] for k, each in enumerate(before)]
        return after + before, torch.tensor(strengths, dtype=torch.float32)

    def exact(self) -> tuple[Tensor, Tensor]:
        """P(s_i = 1) (n,) and E[s_i s_(i + 1)] (n,), by transfer matrices between pairs of neighbours."""
        transfers = [self._transfer(i) for i in range(len(self.fields))]
        after = [np.eye(4)]
        for transfer in reversed(transfers):
            after.append(transfer @ after[-1])
        before, up, pairs = np.eye(4), [], []
        for transfer, rest in zip(transfers, after[-2::-1], strict=True):
            weights = np.diag(transfer @ rest @ before).reshape(2, 2)  # of s_i and s_(i + 1)
            weights = weights / weights.sum()
            up.append(weights[1].sum())
            pairs.append(float(_SPINS @ weights @ _SPINS))
            before = before @ transfer
        return torch.tensor(up), torch.tensor(pairs)

    def _transfer(self, i: int) -> Array:
        """The transfer matrix (4, 4) from (s_i, s_(i + 1)) to (s_(i + 1), s_(i + 2)), each pair a number from 0 to 3."""
        a, b, c = np.meshgrid(_SPINS, _SPINS, _SPINS, indexing="ij")
        weights = np.exp(self.fields[i] * a + self.couplings[0, i] * a * b + self.couplings[1, i] * a * c)
        found = np.zeros((2, 2, 2, 2))
        for middle in range(2):
            found[:, middle, middle, :] = weights[:, middle, :]
        return found.reshape(4, 4)


def measured(spins: Tensor) -> tuple[Tensor, Tensor]:
    """The estimates of P(s_i = 1) and E[s_i s_(i + 1)], both (n,), from samples (n, chains) of 1 and -1."""
    return (spins > 0).double().mean(dim=1), (spins * spins.roll(-1, dims=0)).double().mean(dim=1)
