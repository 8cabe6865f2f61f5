"""The context of one exchange, for a codec, a consistency, a merge or a local rule.

Channels of topologies make those of codecs, and each `ModelState` holds that of its merge; the replica gives it to the local rule too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from polyrhythm.core.kernel.group import Group
from polyrhythm.core.protocols.controller import AS_COMPOSED, Controls
from polyrhythm.core.protocols.factors import Factors
from polyrhythm.core.tensors import Layout, State


def _no_weights() -> Tensor:
    return torch.empty(0)


def _no_rates() -> tuple[float, ...]:
    return ()


@dataclass(frozen=True)
class ExchangeContext:
    """One exchange, as the actor that encodes or merges sees it.

    `group` are the workers that exchange; a server stands outside it, with rank -1. `draw` is the piece's random stream. `clock` is the
    worker's step, from 1; at a server the slowest worker's step that was merged before. `source` gives the current weights of the same
    vector, on any device; it is called only when a piece reads `weights`. Before training there are none. `factors` are those of the
    sender's gradient, by the name of the linear layer; for a part of the vector too they are those of whole layers.

    A merge has more: the `layout` of the vector, the `state` that it returned with its last direction (empty at first), and `moved`. Where
    a topology encodes for each receiver separately, a codec has the `receiver`. `controls` has the decisions of the controller so far.
    `rates` gives the current learning rates of the worker's optimizer, by parameter group; none outside of collective exchanges.
    """

    group: Group
    draw: np.random.Generator
    clock: int = 0
    source: Callable[[], Tensor] = _no_weights
    factors: Mapping[str, Factors] = field(default_factory=dict)
    layout: Layout = Layout((), ())  # noqa: RUF009 (a frozen value)
    state: State = field(default_factory=dict)
    update: Callable[[], Tensor] = _no_weights
    receiver: str = ""
    controls: Controls = AS_COMPOSED
    rates: Callable[[], tuple[float, ...]] = _no_rates

    @cached_property
    def weights(self) -> Tensor:
        """The sender's weights, or at a server those of its part (numel,), on the CPU. They must not be written to.

        They are copied from another device when first looked at; on the CPU they are the weights themselves, so keep no reference.
        """
        return self.source().detach().cpu()

    @property
    def moved(self) -> Tensor:
        """The change of the weights by this worker's own steps since the last exchange (numel,), with the sign of a gradient.

        Only for a merge that declares `sees_moved`; it is computed anew each time.
        """
        return self.update().detach().cpu()

    def to(self, receiver: str) -> ExchangeContext:
        """The context of the same exchange with one of several receivers."""
        return self.changed(receiver=receiver)

    def at(self, clock: int, source: Callable[[], Tensor], factors: Mapping[str, Factors] | None = None) -> ExchangeContext:
        """The context of the same group and stream at `clock`, with the weights that `source` gives, and `factors` if there are any."""
        made = object.__new__(ExchangeContext)
        fields = made.__dict__
        fields |= self.__dict__
        fields["clock"], fields["source"], fields["factors"] = clock, source, {} if factors is None else factors
        fields.pop("weights", None)
        return made

    def parts(self, layouts: Sequence[Layout]) -> list[ExchangeContext]:
        """The contexts of consecutive parts of the vector, in order."""
        contexts, start = [], 0
        for layout in layouts:
            contexts.append(self.changed(source=partial(self._range, start, layout.numel), layout=layout))
            start += layout.numel
        return contexts

    def range(self, start: int, layout: Layout) -> ExchangeContext:
        """The context of the part of the vector that starts at `start`."""
        source, update = partial(self._range, start, layout.numel), partial(self._moved, start, layout.numel)
        return self.changed(source=source, update=update, layout=layout)

    def divided(self, layouts: Sequence[Layout], cut: Callable[[Tensor], Sequence[Tensor]]) -> list[ExchangeContext]:
        """The contexts of the parts into which `cut` divides the vector."""
        return [self.changed(source=partial(self._piece, cut, k), layout=layout) for k, layout in enumerate(layouts)]

    def changed(self, **changes: Any) -> ExchangeContext:
        """A copy with some fields replaced, five times as fast as `dataclasses.replace`: codecs of parts make several at each step."""
        changed = object.__new__(ExchangeContext)
        fields = changed.__dict__
        fields |= self.__dict__
        fields.pop("weights", None)
        fields |= changes
        return changed

    def _piece(self, cut: Callable[[Tensor], Sequence[Tensor]], k: int) -> Tensor:
        return cut(self.weights)[k]

    def _moved(self, start: int, numel: int) -> Tensor:
        return self.moved.narrow(0, start, numel)

    def _range(self, start: int, numel: int) -> Tensor:
        return self.weights.narrow(0, start, numel)
