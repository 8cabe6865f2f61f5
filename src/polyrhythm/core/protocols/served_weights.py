"""The part of its weights that a server sends to a worker that has an earlier version of them.

`Server(responses=...)` takes it as a setting; the shards of parameter servers keep its log, and their clients unpack.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from torch import Tensor

from polyrhythm.core.protocols.requests import Packet
from polyrhythm.core.protocols.state import Stateful
from polyrhythm.core.tensors import Layout


class WeightLog(Stateful, Protocol):
    """A server's log of the changes of its weights (numel,)."""

    def changed(self, weights: Tensor, version: int) -> None:
        """Note that the weights have become `weights`, which is `version`."""

    def packet(self, weights: Tensor, known: int) -> Packet:
        """The packet for a worker that has version `known` (-1: none); `weights` are the current ones, in memory that may be sent."""


class ServedWeights(Protocol):
    """A policy, the same at a server and at its workers. Settings are frozen."""

    def log(self, weights: Tensor, layout: Layout) -> WeightLog:
        """The log of initial weights, which are version 0."""

    def receivers(self, workers: Sequence[str]) -> Sequence[str]:
        """The remaining workers to which every new version is sent without a request."""

    def unpacked(self, packet: Packet, held: Tensor, layout: Layout) -> Tensor:
        """The server's weights (numel,), on the CPU, from a packet and those that the worker `held`; it may be the version that it has."""
