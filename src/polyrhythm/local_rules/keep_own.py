"""After an exchange, a worker keeps a part of the weights that it had."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from polyrhythm.core.protocols.local import LocalHooks
from polyrhythm.core.protocols.traits import LocalTraits, Payload
from polyrhythm.core.settings import checked
from polyrhythm.errors import CompositionError


@dataclass(frozen=True, slots=True)
@checked
class KeepOwn:
    """After an exchange a worker continues from α w + (1 - α) z: a part α = `part` of the worker's w, the rest of the agreed z.

    (Streaming DiLoCo; Douillard et al., 2025, section 2.3.) The result of the run is z, and the next update counts from z.
    """

    part: float

    def __post_init__(self) -> None:
        if not 0 <= self.part <= 1:
            raise CompositionError(f"KeepOwn({self.part}) is no part of a worker's weights: give 0 (none) to 1 (all of them).")

    @property
    def traits(self) -> LocalTraits:
        """For updates only: when weights are exchanged as they are, there are no weights that all workers have agreed on."""
        return LocalTraits(frozenset({Payload.UPDATE}))

    @property
    def hooks(self) -> LocalHooks:
        return LocalHooks(go_on=self.go_on)

    def go_on(self, agreed: Tensor, own: Tensor, sent: Tensor) -> Tensor:
        """The mixture α w + (1 - α) z."""
        return torch.lerp(agreed, own, self.part)


EXAMPLES = (KeepOwn(0.5),)
