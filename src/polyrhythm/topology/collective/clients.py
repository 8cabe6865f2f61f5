"""The clients of a channel that sums a vector in ranges: buckets, or tensors."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from polyrhythm.core.tensors import Layout, State
from polyrhythm.core.trees import StateTree
from polyrhythm.topology.collective.collective_client import CollectiveClient


class Clients(list[CollectiveClient]):
    """A client for each range, the last of the vector first.

    What they export is their state after the last step that was concluded: where the loss of a worker interrupts a step after some of its
    sums, all its gradients are sent again, and the codecs must not have sent them before.
    """

    concluded: Sequence[StateTree] = ()

    @property
    def layouts(self) -> list[Layout]:
        """The layouts of the ranges."""
        return [client.layout for client in self]

    def conclude(self) -> None:
        """Every sum of the step has come, or none was begun."""
        self.concluded = [client.export() for client in self]

    def export(self) -> StateTree:
        """The states of all, for `Channel.export`."""
        return list(self.concluded)

    def restore(self, states: StateTree) -> None:
        """Restore exported states."""
        for client, exported in zip(self, states, strict=True):
            client.restore(exported)
        self.conclude()

    def take_over(self, states: StateTree, own: bool) -> None:
        """Continue with states of other clients, as `Channel.take_over` does."""
        for client, exported in zip(self, states, strict=True):
            client.take_over(exported, own)
        self.conclude()

    def inherit(self, residual: Tensor) -> None:
        """Add the residual (numel,) of a worker that has left."""
        parts = torch.split(residual, [client.layout.numel for client in reversed(self)])
        for client, part in zip(reversed(self), parts, strict=True):
            client.inherit(part)
        self.conclude()

    def states(self) -> list[tuple[State, Tensor]]:
        """The codecs' states and residuals, in the order of the vector."""
        return [state for client in reversed(self) for state in client.states()]
