"""Whose weights are the result of a run, and what is made of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor


class ResultSource(Protocol):
    """Where the result of a topology is to be found at any moment."""

    def actors(self, members: tuple[str, ...], servers: tuple[str, ...]) -> list[str]:
        """The actors of both whose weights make it up: of workers, those they agreed on last."""

    def of(self, weights: Sequence[Tensor]) -> Tensor:
        """The result (numel,) from the weights of the `actors`, in their order."""


class FirstWorker:
    """The first worker's weights, which are those of all, or nearly."""

    def actors(self, members: tuple[str, ...], servers: tuple[str, ...]) -> list[str]:
        """It alone."""
        return [members[0]]

    def of(self, weights: Sequence[Tensor]) -> Tensor:
        """As they are."""
        return weights[0]


class AllWorkers:
    """The mean of the weights of all workers, each of which has its own."""

    def actors(self, members: tuple[str, ...], servers: tuple[str, ...]) -> list[str]:
        """All workers."""
        return list(members)

    def of(self, weights: Sequence[Tensor]) -> Tensor:
        """Their mean."""
        return torch.stack(list(weights)).mean(dim=0)


class Shards:
    """What the servers hold, end to end."""

    def actors(self, members: tuple[str, ...], servers: tuple[str, ...]) -> list[str]:
        """The servers."""
        return list(servers)

    def of(self, weights: Sequence[Tensor]) -> Tensor:
        """One after the other."""
        return torch.cat(list(weights))
