"""An axis over a process group of torch.distributed: real ranks, or ranks in virtual time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from polyrhythm.partition.axis import Counts, Pending, Sizes, summand
from polyrhythm.partition.pieces import gather_into, reduce_scatter_into

_GATHER = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor  # the name before 2.13
_SCATTER = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor
_UNDER_WAY = 1
"""The tag of what may be under way while other operations are done."""


class GroupAxis:
    """The `Axis` of that `name` among the ranks of `group`, in the group's order.

    Parts of unequal lengths are padded to the longest where torch's collectives want equal ones. A reduce-scatter of gloo, which is an
    all-reduce of which a part is kept, is replaced by sending each part to its rank, where it is added in the order of ranks.
    """

    def __init__(self, name: str, group: dist.ProcessGroup) -> None:
        self.name, self.group = name, group
        self.size, self.index = dist.get_world_size(group), dist.get_rank(group)
        self.counts = Counts(self.size)
        self.calls, self.nbytes = self.counts.calls, self.counts.nbytes
        self._scatter = _by_parts if dist.get_backend(group) == "gloo" else _natively

    def all_reduce(self, value: Tensor) -> Tensor:
        self.counts.reduced("all_reduce", value)
        total = summand(value)
        dist.all_reduce(total, group=self.group)
        return total.to(value.dtype)

    def maximum(self, value: Tensor) -> Tensor:
        self.counts.reduced("maximum", value)
        largest = value.detach().clone(memory_format=torch.contiguous_format)
        dist.all_reduce(largest, dist.ReduceOp.MAX, group=self.group)
        return largest

    def all_gather(self, value: Tensor, dim: int, sizes: Sizes) -> Tensor:
        self.counts.gathered(value)
        longest = max(sizes)
        own = _padded(value.detach().movedim(dim, 0), longest)
        every = own.new_empty(self.size * longest, *own.shape[1:])
        _GATHER(every, own, group=self.group)
        parts = [every[k * longest : k * longest + size] for k, size in enumerate(sizes)]
        whole = every if min(sizes) == longest else torch.cat(parts)
        return whole.movedim(0, dim).contiguous()

    def reduce_scatter(self, value: Tensor, dim: int, sizes: Sizes) -> Tensor:
        rows = value.detach().movedim(dim, 0)
        part = self._scatter(summand(rows), sizes, self.group).to(value.dtype)
        self.counts.scattered(value, part.numel())
        return part.movedim(0, dim).contiguous()

    def gather_into(self, own: Sequence[Tensor], places: Sequence[Sequence[Tensor]]) -> None:
        gather_into(self, own, places)

    def reduce_scatter_into(self, parts: Sequence[Sequence[Tensor]], into: Sequence[Tensor], divisor: float) -> None:
        reduce_scatter_into(self, parts, into, divisor)

    def all_to_all(self, values: Sequence[Tensor], shapes: Sequence[Sequence[int]]) -> list[Tensor]:
        sent = sum(value.numel() for k, value in enumerate(values) if k != self.index)
        self.counts.add("all_to_all", sent, values[0])
        flat = torch.cat([value.detach().reshape(-1) for value in values])
        numels = [torch.Size(shape).numel() for shape in shapes]
        found = flat.new_empty(sum(numels))
        dist.all_to_all_single(found, flat, numels, [value.numel() for value in values], group=self.group)
        return [part.view(tuple(shape)) for part, shape in zip(torch.split(found, numels), shapes, strict=True)]

    def broadcast(self, value: Tensor, source: int) -> Tensor:
        self.counts.add("broadcast", value.numel() * (self.size - 1) / self.size, value)
        found = value.detach().clone(memory_format=torch.contiguous_format)
        dist.broadcast(found, group=self.group, group_src=source)
        return found

    def reduce(self, value: Tensor, target: int) -> Tensor:
        self.counts.add("reduce", value.numel() * (self.size - 1) / self.size, value)
        total = summand(value)
        dist.reduce(total, group=self.group, group_dst=target)
        return total.to(value.dtype) if self.index == target else torch.zeros_like(value)

    def shift(self, value: Tensor, by: int, shape: Sequence[int]) -> Tensor:
        self.counts.add("shift", value.numel(), value)
        if not by % self.size:
            return value.detach().clone()
        to, source = (self.index + by) % self.size, (self.index - by) % self.size
        return self._at_once({to: value}, {source: shape}, value)[source]

    def exchange(self, to: dict[int, Tensor], shapes: dict[int, Sequence[int]], like: Tensor) -> dict[int, Tensor]:
        self.counts.add("exchange", sum(value.numel() for value in to.values()), like)
        return self._at_once(to, shapes, like)

    def send_to(self, value: Tensor, target: int) -> Pending:
        self.counts.add("send_to", value.numel(), value)
        sent = value.detach().contiguous()
        return _Moving(sent, dist.isend(sent, group=self.group, group_dst=target, tag=_UNDER_WAY))

    def receive_from(self, source: int, shape: Sequence[int], like: Tensor) -> Pending:
        room = like.new_empty(tuple(shape))
        return _Moving(room, dist.irecv(room, group=self.group, group_src=source, tag=_UNDER_WAY))

    def _at_once(self, to: dict[int, Tensor], shapes: dict[int, Sequence[int]], like: Tensor) -> dict[int, Tensor]:
        found = {source: like.new_empty(tuple(shape)) for source, shape in shapes.items()}
        sends = [dist.P2POp(dist.isend, value.detach().contiguous(), group=self.group, group_peer=k) for k, value in to.items()]
        receives = [dist.P2POp(dist.irecv, value, group=self.group, group_peer=k) for k, value in found.items()]
        if sends or receives:
            works: list[Any] = dist.batch_isend_irecv(sends + receives)
            for work in works:
                work.wait()
        return found


class _Moving:
    """A tensor with the work of torch.distributed that moves it."""

    def __init__(self, value: Tensor, work: Any) -> None:
        self._value, self._work = value, work

    def wait(self) -> Tensor:
        self._work.wait()
        return self._value


def _padded(rows: Tensor, length: int) -> Tensor:
    if len(rows) == length:
        return rows.contiguous()
    return torch.cat([rows, rows.new_zeros(length - len(rows), *rows.shape[1:])])


def _natively(rows: Tensor, sizes: Sizes, group: dist.ProcessGroup) -> Tensor:
    """The sum of this rank's rows by the group's own reduce-scatter."""
    longest, own = max(sizes), sizes[dist.get_rank(group)]
    even = rows if min(sizes) == longest else torch.cat([_padded(part, longest) for part in torch.split(rows, list(sizes))])
    part = rows.new_empty(longest, *rows.shape[1:])
    _SCATTER(part, even, group=group)
    return part[:own]


def _by_parts(rows: Tensor, sizes: Sizes, group: dist.ProcessGroup) -> Tensor:
    """The sum of this rank's rows, which all send to it."""
    own, ranks = sizes[dist.get_rank(group)], len(sizes)
    every = rows.new_empty(ranks * own, *rows.shape[1:])
    dist.all_to_all_single(every, rows, [own] * ranks, list(sizes), group=group)
    return every.view(ranks, own, *rows.shape[1:]).sum(0)
