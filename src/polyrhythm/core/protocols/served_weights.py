"""How much of its weights a server sends to a worker that has an earlier version of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from torch import Tensor

from polyrhythm.core.protocols.requests import Packet
from polyrhythm.core.protocols.state import Stateful
from polyrhythm.core.tensors import Layout


class WeightLog(Stateful, Protocol):
    """What a server keeps of how its weights (numel,) have changed."""

    def changed(self, weights: Tensor, version: int) -> None:
        """They have become `weights`, which is `version`."""

    def packet(self, weights: Tensor, known: int) -> Packet:
        """What a worker needs that has version `known` (-1: none); `weights` are as they are, in memory that may be sent."""


class ServedWeights(Protocol):
    """Frozen settings; the same at a server and at its workers."""

    def log(self, weights: Tensor, layout: Layout) -> WeightLog:
        """Of weights as they begin, which is version 0."""

    def receivers(self, workers: Sequence[str]) -> Sequence[str]:
        """Those of the workers that are left to whom every new version is sent though they do not request it."""

    def unpacked(self, packet: Packet, held: Tensor, layout: Layout) -> Tensor:
        """The server's weights (numel,), from a packet and those that the worker `held`, on the CPU; it may be the version that it has."""
