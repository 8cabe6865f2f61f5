"""Buffers that are averaged over the workers."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from polyrhythm.core.protocols.buffers import Keeper, Unchanged


@dataclass(frozen=True, slots=True)
class MeanBuffers:
    """Floating-point buffers are averaged over the workers when the run finishes; all others stay those of each worker.

    Each worker has gathered its statistics on its own samples and, where workers take local steps, with its own weights; the mean fits the
    common weights better than the statistics of one worker do.
    """

    @property
    def averaged(self) -> bool:
        return True

    def keeper(self, model: nn.Module) -> Keeper:
        return Unchanged()
