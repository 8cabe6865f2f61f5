"""The source of a run's result: the actors whose weights make it up, and the way these are combined.

Every topology has one as its `result`; plans of exchanges ask it when a model is evaluated or saved.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor


class ResultSource(Protocol):
    """The source of a topology's result at any moment."""

    def actors(self, members: tuple[str, ...], servers: tuple[str, ...]) -> Sequence[str]:
        """The workers or servers whose weights make up the result; of workers, the weights that they agreed on last."""

    def of(self, weights: Sequence[Tensor]) -> Tensor:
        """The result (numel,) from the weights of the `actors`, in their order."""


class FirstWorker:
    """The first worker's weights, which are those of all, or nearly."""

    def actors(self, members: tuple[str, ...], servers: tuple[str, ...]) -> Sequence[str]:
        """The first worker alone."""
        return list(members[:1])

    def of(self, weights: Sequence[Tensor]) -> Tensor:
        return weights[0]


class AllWorkers:
    """The mean of the weights of all workers, each of which has its own."""

    def actors(self, members: tuple[str, ...], servers: tuple[str, ...]) -> Sequence[str]:
        return members

    def of(self, weights: Sequence[Tensor]) -> Tensor:
        """The mean of their weights."""
        return torch.stack(list(weights)).mean(dim=0)


class Shards:
    """The weights of the servers' shards, end to end."""

    def actors(self, members: tuple[str, ...], servers: tuple[str, ...]) -> Sequence[str]:
        return list(servers)

    def of(self, weights: Sequence[Tensor]) -> Tensor:
        return torch.cat(list(weights))
