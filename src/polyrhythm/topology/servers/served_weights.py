"""Responses of servers: all of their weights, or the rows that have changed. `Server` and `ServerRing` take one as `responses`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from polyrhythm.core.protocols.requests import Packet
from polyrhythm.core.protocols.rows import join_rows, row_counts, split_rows
from polyrhythm.core.protocols.served_weights import WeightLog
from polyrhythm.core.tensors import Layout
from polyrhythm.core.trees import StateTree

_BITS = {4: torch.int32, 8: torch.int64}


@dataclass(frozen=True, slots=True)
class AllWeights:
    """Every response has all weights of the shard."""

    def log(self, weights: Tensor, layout: Layout) -> WeightLog:
        """No state need be kept."""
        return _NoLog()

    def receivers(self, workers: Sequence[str]) -> Sequence[str]:
        return ()

    def unpacked(self, packet: Packet, held: Tensor, layout: Layout) -> Tensor:
        """As they came; an empty packet leaves what is held."""
        return packet[0] if packet else held


class _NoLog:
    def changed(self, weights: Tensor, version: int) -> None:
        pass

    def packet(self, weights: Tensor, known: int) -> Packet:
        return (weights,)

    def export(self) -> StateTree:
        return None

    def restore(self, state: StateTree) -> None:
        pass


@dataclass(frozen=True, slots=True)
class ChangedRows:
    """A worker that waits for its responses gets the rows whose bits have changed since the version that it has, and all vectors.

    So what leaves rows alone, such as SGD without momentum or Adagrad on an embedding, is as sparse on the way back. The weights are those
    that `AllWeights` gives, bit for bit, under every optimizer. A shard keeps a second copy of its weights, and a number for each row.
    """

    def log(self, weights: Tensor, layout: Layout) -> WeightLog:
        """The version of each row."""
        return RowLog(weights, layout)

    def receivers(self, workers: Sequence[str]) -> Sequence[str]:
        return ()

    def unpacked(self, packet: Packet, held: Tensor, layout: Layout) -> Tensor:
        """The rows on top of what is held; one tensor is all weights."""
        if len(packet) <= 1:
            return packet[0] if packet else held
        weights = held.clone()
        join_rows(weights, layout, packet[0].tolist(), packet[1:])
        return weights


class RowLog:
    """`versions` has, for each matrix of `layout`, the version in which each row last changed (rows,); `seen` are the weights then."""

    def __init__(self, weights: Tensor, layout: Layout) -> None:
        self.layout = layout
        self.seen = weights.clone()
        self.versions = [torch.zeros(rows, dtype=torch.int64) for rows in row_counts(layout)]

    def changed(self, weights: Tensor, version: int) -> None:
        kind = _BITS[weights.element_size()]
        pairs = zip(self._matrices(weights), self._matrices(self.seen), self.versions, strict=True)
        for now, before, versions in pairs:
            versions[(now.view(kind) != before.view(kind)).any(dim=1)] = version
        self.seen.copy_(weights)

    def packet(self, weights: Tensor, known: int) -> Packet:
        if known < 0:
            return (weights,)
        chosen = [(versions > known).nonzero().view(-1) for versions in self.versions]
        counts = torch.tensor([len(rows) for rows in chosen], dtype=torch.int64)
        return (counts, *split_rows(weights, self.layout, chosen))

    def export(self) -> StateTree:
        return {"seen": self.seen, "versions": self.versions}

    def restore(self, state: StateTree) -> None:
        self.seen, self.versions = state["seen"], state["versions"]

    def _matrices(self, flat: Tensor) -> list[Tensor]:
        return [view.flatten(1) for view in self.layout.views(flat) if view.dim() > 1]
