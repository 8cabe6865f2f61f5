"""Averaging of the optimizers' states: momentum and second moments continue from their mean over the workers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from polyrhythm.core.protocols.capability import Capability
from polyrhythm.core.protocols.local import LocalHooks
from polyrhythm.core.protocols.traits import LOCAL, LocalTraits


@dataclass(frozen=True, slots=True)
class AverageMoments:
    """After each exchange the optimizers' states are averaged over the workers (the updater of DL4J's ParameterAveraging; Skymind, 2014).

    Momentum, second moments and step counts are summed uncompressed, without the exchange's codec, after a number for each parameter,
    which adds as many bytes as they have. Where a parameter had no gradient yet, its state counts as zeros.
    """

    traits: ClassVar = LocalTraits(LOCAL, frozenset({Capability.COLLECTIVES}), averages=True)
    hooks: ClassVar = LocalHooks()
