"""Random blocks, without regard to their dependencies."""

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
class RandomBlocks:
    """`parallel` blocks, drawn uniformly without regard to dependencies (Shotgun; Bradley, Kyrola, Bickson, Guestrin, ICML 2011)."""

    parallel: int

    def __post_init__(self) -> None:
        if not self.parallel >= 1:
            raise CompositionError(f"RandomBlocks(parallel={self.parallel}) updates nothing: give 1 block or more.")

    def blocks(self, changes: Tensor, flying: Tensor, similarity: Similarity, draw: np.random.Generator) -> Tensor:
        """`parallel` blocks, or all if there are fewer."""
        chosen = draw.choice(len(changes), min(self.parallel, len(changes)), replace=False)
        return torch.from_numpy(np.sort(chosen))
