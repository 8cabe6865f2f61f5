"""What the server of a group has to do with those of other groups, or with one above it."""

from __future__ import annotations

from typing import Any, Protocol

from torch import Tensor

from polyrhythm.core.kernel.port import Port
from polyrhythm.core.protocols.state import Stateful
from polyrhythm.core.tensors import Layout


class GroupServer(Protocol):
    """The server, as its link upstream sees it."""

    def changing(self) -> None:
        """The weights are about to be changed from elsewhere."""

    def changed(self) -> None:
        """They have been changed."""

    async def release(self) -> None:
        """Respond to all that may go on."""


class HostedOptimizer(Stateful, Protocol):
    """What a server does with a merged gradient or update."""

    def step_on(self, gradient: Tensor, rates: tuple[float, ...]) -> None:
        """Take `gradient` (numel,), with these learning rates of all parameter groups."""


class UpstreamLink(Stateful, Protocol):
    """A server's side of the exchange with other servers."""

    def optimizer(self, recipe: str, weights: Tensor, layout: Layout) -> HostedOptimizer | None:
        """What is to be done with what the server merges, given the workers' optimizer (empty if it stays with them)."""

    async def establish(self, state: Any, recipe: str) -> None:
        """Begin with the weights of the first group; `state` is the server's `model.state.ModelState`."""

    def may_proceed(self, clock: int) -> bool:
        """Whether a worker that has done step `clock` need not wait for other servers."""

    async def offer(self, update: Tensor, clock: float) -> None:
        """`update` (numel,) is what a merge has done to the weights, with the sign of a gradient; the slowest worker is at `clock`."""

    async def finish(self) -> None:
        """All workers of the server are done: send the rest, and take in what others send until they are done too."""

    async def drain(self, step: int) -> str:
        """Have all that was sent to other servers, and by them, arrive before a checkpoint after `step`.

        Servers above write their state. Returns why one of them could not, as a sentence; empty where all have.
        """


class Upstream(Protocol):
    """How a server exchanges with other servers. Frozen settings."""

    @property
    def workers(self) -> tuple[str, ...]:
        """Those among whom a contribution that the server merges counts as that of one."""

    def link(self, port: Port, server: GroupServer) -> UpstreamLink:
        """The link of `server`."""
