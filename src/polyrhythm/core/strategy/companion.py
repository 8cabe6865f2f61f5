"""A vector that neighbours mix in addition to the weights, and in the same way."""

from __future__ import annotations

import torch

from polyrhythm.core.kernel.port import Port
from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.protocols.topology import Agreement
from polyrhythm.core.strategy.plan import Level
from polyrhythm.core.trees import StateTree
from polyrhythm.core.weights.state import ModelState


class Companion:
    """One vector (numel,) with its own channel on the topology of the weights; `state` holds it."""

    def __init__(self, level: Level, port: Port, held: ModelState) -> None:
        self.channel = level.connect(port)
        context = ExchangeContext(level.group, port.rng("exchange"))
        self.state = ModelState(torch.zeros_like(held.weights), held.layout, level.agreement.merge, context, None)

    def export(self) -> StateTree:
        """The state of the channel; the vector is made anew for every exchange."""
        return self.channel.export()

    def restore(self, state: StateTree) -> None:
        self.channel.restore(state)

    def take_over(self, state: StateTree, own: bool) -> None:
        """As `Channel.take_over`."""
        self.channel.take_over(state, own)


def companion_scopes(agreement: Agreement) -> list[str]:
    """The prefix of the topics of each vector that the local rule sends, but for the first, which takes the place of the weights."""
    mixing = agreement.local.hooks.mixing
    return [f"beside {k}/" for k in range(1, mixing.vectors if mixing is not None else 1)]


def companions(level: Level, port: Port, held: ModelState) -> list[Companion]:
    """All vectors that are mixed in addition to the weights `held`."""
    return [Companion(level, port.scoped(scope), held) for scope in companion_scopes(level.agreement)]
