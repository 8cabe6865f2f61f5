"""The exchange of a group's server with the servers of other groups, or with one above it."""

from __future__ import annotations

from typing import Any, Protocol

from torch import Tensor

from polyrhythm.core.kernel.port import Port
from polyrhythm.core.protocols.state import Stateful
from polyrhythm.core.tensors import Layout
from polyrhythm.core.trees import StateTree


class GroupServer(Protocol):
    """A server, as its link upstream sees it."""

    def changing(self) -> None:
        """Note that the link is about to change the weights."""

    def changed(self) -> None:
        """Note that the link has changed the weights."""

    async def release(self) -> None:
        """Respond to all workers that may proceed."""


class HostedOptimizer(Stateful, Protocol):
    """The optimizer that a server runs on merged gradients or updates."""

    def step_on(self, gradient: Tensor, rates: tuple[float, ...]) -> None:
        """Take a step on `gradient` (numel,), with these learning rates of all parameter groups."""


class UpstreamLink(Stateful, Protocol):
    """A server's side of the exchange with other servers."""

    def optimizer(self, recipe: str, weights: Tensor, layout: Layout) -> HostedOptimizer | None:
        """The optimizer for what the server merges, given the workers' optimizer as text (empty if it stays with them)."""

    async def establish(self, state: Any, recipe: str) -> None:
        """Start with the weights of the first group; `state` is the server's `ModelState`."""

    def take_over(self, state: StateTree) -> None:
        """As `restore`, after the crew has changed."""

    async def offer_again(self) -> None:
        """After `take_over`: send what it was sending when the crew changed."""

    def may_proceed(self, clock: int) -> bool:
        """True if a worker that has done step `clock` need not wait for other servers."""

    async def offer(self, update: Tensor, clock: float) -> None:
        """`update` (numel,) is the change of the weights by a merge, with the sign of a gradient; the slowest worker is at `clock`."""

    async def finish(self) -> None:
        """All workers of the server are done: send the rest, and receive from other servers until they are done too."""

    async def drain(self, step: int) -> str:
        """Wait until all that was sent to other servers, and by them, has arrived, before a checkpoint after `step`.

        Servers above write their state. Returns the error of one of them, as a sentence; empty where there is none.
        """


class Upstream(Protocol):
    """Connects a server to other servers. Settings are frozen."""

    @property
    def workers(self) -> tuple[str, ...]:
        """The workers among whom a contribution that the server merges counts as that of one."""

    def link(self, port: Port, server: GroupServer) -> UpstreamLink:
        """The link of `server` to the other servers."""
