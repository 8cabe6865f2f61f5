"""The protocol of block schedules: the choice of the blocks of a model that are updated in the next round."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
from torch import Tensor

Similarity = Callable[[Tensor], Tensor]
"""How much the update of each of some blocks (n,) depends on each other (n, n), without sign: for lasso |x_jᵀ x_k| of unit columns."""


class BlockSchedule(Protocol):
    """Frozen settings.

    Law: the blocks exist, and none is chosen twice; the same arguments give the same blocks.
    """

    def blocks(self, changes: Tensor, flying: Tensor, similarity: Similarity, draw: np.random.Generator) -> Tensor:
        """The numbers (n,) of the blocks to update together, ascending.

        `changes` (J,) is the magnitude of each block's change when it was last updated; infinite if it never was.
        `flying` (m,) are the blocks of earlier rounds whose updates some workers may not have seen yet.
        """
