"""A unit: the parameters of some modules, which are gathered and whose gradients are reduced in one operation each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from polyrhythm.core.tensors import NO_GRADIENT, without_gradient
from polyrhythm.partition.axis import Axis
from polyrhythm.partition.zero.sharded import ShardedParameter, by_rank


@dataclass(frozen=True, slots=True)
class ParameterSeat:
    """The place of a parameter: it is the attribute `name` of `owner`."""

    owner: nn.Module
    name: str


class Unit:
    """Parameters of one type along `axis`, each with its `seats`: several where modules share it."""

    def __init__(self, axis: Axis, parameters: Sequence[ShardedParameter], seats: Sequence[Sequence[ParameterSeat]]) -> None:
        self.axis, self.parameters, self.seats = axis, parameters, seats
        self.shards = [each.shard for each in parameters]
        self.before_reading: Callable[[], None] = lambda: None
        """Called before the shards are read."""

    def gather(self, into: Sequence[Tensor] = ()) -> list[Tensor]:
        """The whole parameters, in new tensors or in these."""
        self.before_reading()
        wholes = list(into) or [each.shard.new_empty(each.shape) for each in self.parameters]
        self.axis.gather_into([shard.detach().contiguous() for shard in self.shards], by_rank(self.parameters, wholes))
        return wholes

    def reduce(self, gradients: Sequence[Tensor | None]) -> list[Tensor | None]:
        """This rank's rows of the means of all ranks' gradients; None where no rank has one."""
        like, ranks = self.shards[0], self.axis.size
        filled = [
            torch.full(each.shape, NO_GRADIENT, dtype=like.dtype, device=like.device) if gradient is None else gradient
            for each, gradient in zip(self.parameters, gradients, strict=True)
        ]
        parts = by_rank(self.parameters, [gradient.detach().contiguous() for gradient in filled])
        own = [torch.empty_like(part) for part in parts[self.axis.index]]
        self.axis.reduce_scatter_into(parts, own, ranks)
        absent = without_gradient([part.reshape(-1) for part in own])
        return [None if gone or not shard.requires_grad else part for part, gone, shard in zip(own, absent, self.shards, strict=True)]

    @contextmanager
    def seated(self, wholes: Sequence[Tensor]) -> Iterator[None]:
        """Let the modules have these tensors in the place of the shards."""
        places = [(seat, whole) for seats, whole in zip(self.seats, wholes, strict=True) for seat in seats]
        for seat, whole in places:
            seat.owner.__dict__[seat.name] = whole  # an attribute of its own comes before a module's parameters
        try:
            yield
        finally:
            for seat, _ in places:
                seat.owner.__dict__.pop(seat.name, None)


def computing_within(module: nn.Module, context: Callable[[], AbstractContextManager[None]]) -> None:
    """Have the forward pass of `module` run inside of a context."""
    forward = module.forward

    def within(*args: Any, **kwargs: Any) -> Any:
        with context():
            return forward(*args, **kwargs)

    module.forward = within
