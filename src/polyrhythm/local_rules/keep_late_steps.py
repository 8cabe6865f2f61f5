"""Steps that were taken while an exchange was under way are kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from polyrhythm.core.protocols.local import LocalHooks
from polyrhythm.core.protocols.traits import LocalTraits, Payload


@dataclass(frozen=True, slots=True)
class KeepLateSteps:
    """After a delayed exchange a worker continues from the agreed weights plus the steps that it has taken since it sent its update.

    So no step is lost: they are in its next update (CoCoD-SGD; Shen et al., IJCAI 2019, algorithm 1). Without a delay there are none,
    and it equals `PlainSteps`.
    """

    traits: ClassVar = LocalTraits(frozenset({Payload.UPDATE}))

    @property
    def hooks(self) -> LocalHooks:
        return LocalHooks(go_on=self.go_on)

    def go_on(self, agreed: Tensor, own: Tensor, sent: Tensor) -> Tensor:
        """The agreed weights, plus the steps taken since the update was sent."""
        return agreed + (own - sent)
