"""STRADS: blocks that change much, and that do not depend on each other."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from polyrhythm.core.settings import checked
from polyrhythm.errors import CompositionError
from polyrhythm.workloads.block_schedules.block_schedule import Similarity


@dataclass(frozen=True, slots=True)
@checked
class Strads:
    """Up to `parallel` blocks that depend neither on each other nor on one in flight by `theta` or more.

    Candidates, `candidates` times as many, are drawn without replacement with probabilities proportional to their last change plus
    `epsilon`; those that never were updated come first. In that order each is taken that depends on none that was taken before. (Lee,
    Kim, Zheng, Ho, Gibson, Xing, NIPS 2014: structure-aware dynamic scheduling; Petuum; Xing et al., KDD 2015.)
    """

    parallel: int
    theta: float = 0.1
    epsilon: float = 1e-3
    candidates: int = 4

    def __post_init__(self) -> None:
        if not (self.parallel >= 1 and self.candidates >= 1 and self.theta > 0 and self.epsilon > 0):
            raise CompositionError(
                f"{self!r} updates nothing, or not everything: give whole numbers of 1 or more, and a theta and an epsilon above zero."
            )

    def blocks(self, changes: Tensor, flying: Tensor, similarity: Similarity, draw: np.random.Generator) -> Tensor:
        """Fewer than `parallel` blocks, or none, if too many candidates depend on each other or on blocks in flight."""
        order = self._drawn(changes, draw)
        everyone = torch.cat([flying, order])
        dependent = (similarity(everyone) >= self.theta).numpy()
        taken = list(range(len(flying)))
        for place in range(len(flying), len(everyone)):
            if len(taken) == len(flying) + self.parallel:
                break
            if not dependent[place, taken].any():
                taken.append(place)
        return everyone[taken[len(flying) :]].sort().values

    def _drawn(self, changes: Tensor, draw: np.random.Generator) -> Tensor:
        """The candidates in the order in which they were drawn."""
        weights = changes.double().numpy() + self.epsilon
        # the largest of u^(1/w), for u uniform, are a draw without replacement (Efraimidis, Spirakis, 2006); of infinite weights any
        fresh, u = np.isinf(weights), draw.random(len(weights))
        keys = np.where(fresh, u, np.log(u) / np.where(fresh, 1.0, weights))
        count = min(len(weights), self.parallel * self.candidates)
        return torch.from_numpy(np.argsort(-keys, kind="stable")[:count].copy())
