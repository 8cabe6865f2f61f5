"""Buffers that each worker keeps."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from polyrhythm.core.protocols.buffers import Keeper, Unchanged


@dataclass(frozen=True, slots=True)
class OwnBuffers:
    """Every worker keeps its buffers as they are, and those of worker 0 are saved, as under DistributedDataParallel."""

    @property
    def averaged(self) -> bool:
        return False

    def keeper(self, model: nn.Module) -> Keeper:
        return Unchanged()
