"""What a schedule is: the choice of the blocks of a model that are updated in the next round."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
from torch import Tensor

Similarity = Callable[[Tensor], Tensor]
"""How much the update of each of some blocks (n,) depends on each other (n, n), without sign: for lasso |x_jᵀ x_k| of unit columns."""


class BlockSchedule(Protocol):
    """Frozen settings.

    Law: the blocks are of those that there are, none twice; the same arguments give the same blocks.
    """

    def blocks(self, changes: Tensor, flying: Tensor, similarity: Similarity, draw: np.random.Generator) -> Tensor:
        """The numbers (n,) of the blocks to update together, ascending.

        `changes` (J,) is, without sign, by how much each block has changed when it was last updated; infinite where it never was.
        `flying` (m,) are the blocks of earlier rounds whose updates some workers may not see yet.
        """
