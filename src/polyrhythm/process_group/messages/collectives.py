"""The collectives of torch.distributed on tensors of any shape and stride, made of messages. `MessageGroup` makes one for each call."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from polyrhythm.errors import CompositionError
from polyrhythm.process_group.collectives import flattened, replace_sparse
from polyrhythm.process_group.messages.algorithms import Algorithms
from polyrhythm.process_group.messages.party import Party
from polyrhythm.process_group.operations import Reduction


class MessageCollectives:
    """Those of `party`: the members, and what this one issues. They communicate by `algorithms`."""

    def __init__(self, party: Party, algorithms: Algorithms) -> None:
        self._party = party
        self._by = algorithms

    async def reduce_all(self, tensors: Sequence[Tensor], how: Reduction) -> None:
        """Several tensors are reduced as one."""
        total = await self._by.all_reduce(self._party, how.scaled(_joined(tensors)), how)
        _fill(tensors, total)

    async def sum_sparse(self, tensors: Sequence[Tensor]) -> None:
        for tensor in tensors:
            own = tensor.detach().coalesce()
            indices = await self._by.all_gather(self._party, _line(own.indices().t()))
            values = await self._by.all_gather(self._party, _line(own.values()))
            rows = torch.cat(indices).view(-1, own.sparse_dim()).t()
            replace_sparse(tensor, rows, torch.cat(values).view(-1, *own.values().shape[1:]))

    async def reduce_to(self, tensors: Sequence[Tensor], how: Reduction, root: int) -> None:
        total = await self._by.reduce(self._party, how.scaled(_joined(tensors)), how, root)
        if total is not None:
            _fill(tensors, total)

    async def broadcast(self, tensors: Sequence[Tensor], root: int) -> None:
        received = await self._by.broadcast(self._party, [_line(tensor) for tensor in tensors], root)
        if self._party.rank != root:
            for tensor, value in zip(tensors, received, strict=True):
                _fill([tensor], value)

    async def gather_flat(self, pairs: Sequence[tuple[Tensor, Tensor]]) -> None:
        everyones = await self._by.all_gather(self._party, _joined([own for _, own in pairs]))
        sizes = [own.numel() for _, own in pairs]
        for (output, _), pieces in zip(pairs, zip(*(torch.split(each, sizes) for each in everyones), strict=True), strict=True):
            _fill([output], torch.cat(pieces))

    async def gather_lists(self, lists: Sequence[Sequence[Tensor]], owns: Sequence[Tensor]) -> None:
        everyones = await self._by.all_gather(self._party, _joined(owns))
        for rank, value in enumerate(everyones):
            _fill([outputs[rank] for outputs in lists], value)

    async def gather_to(self, outputs: Sequence[Tensor], own: Tensor, root: int) -> None:
        everyones = await self._by.gather(self._party, _line(own), root)
        for output, value in zip(outputs, everyones or (), strict=True):
            _fill([output], value)

    async def scatter(self, output: Tensor, pieces: Sequence[Tensor], root: int) -> None:
        _fill([output], await self._by.scatter(self._party, [_line(piece) for piece in pieces], root))

    async def scatter_reduced(self, pairs: Sequence[tuple[Tensor, Tensor]], how: Reduction) -> None:
        size = self._party.size
        cut = [how.scaled(_line(own)).view(size, -1) for _, own in pairs]
        parts = [torch.cat([each[rank] for each in cut]) for rank in range(size)]
        _fill([output for output, _ in pairs], await self._by.reduce_scatter(self._party, parts, how))

    async def scatter_reduced_list(self, output: Tensor, owns: Sequence[Tensor], how: Reduction) -> None:
        _fill([output], await self._by.reduce_scatter(self._party, [how.scaled(_line(own)) for own in owns], how))

    async def exchange_lists(self, outputs: Sequence[Tensor], owns: Sequence[Tensor]) -> None:
        received = await self._by.all_to_all(self._party, [_line(own) for own in owns])
        for rank, (output, value) in enumerate(zip(outputs, received, strict=True)):
            if output.numel() != value.numel():
                raise CompositionError(
                    f"An all-to-all sent {value.numel()} elements from rank {rank} to rank {self._party.rank}, whose output has room for "
                    f"{output.numel()}: give outputs of the sizes that the others send."
                )
            _fill([output], value)

    async def exchange_rows(self, whole: tuple[Tensor, Tensor], outputs: Sequence[Tensor], owns: Sequence[Tensor]) -> None:
        await self.exchange_lists(outputs, owns)

    async def barrier(self) -> None:
        await self._by.barrier(self._party)


def _line(tensor: Tensor) -> Tensor:
    """The numbers of `tensor`, one after another (numel,)."""
    return flattened(tensor).view(-1)


def _joined(tensors: Iterable[Tensor]) -> Tensor:
    lines = [_line(tensor) for tensor in tensors]
    return lines[0] if len(lines) == 1 else torch.cat(lines)


def _fill(tensors: Sequence[Tensor], value: Tensor) -> None:
    """Write `value` (numel,) into `tensors`, one after another."""
    for tensor, piece in zip(tensors, torch.split(value, [tensor.numel() for tensor in tensors]), strict=True):
        tensor.data.copy_(piece.view(tensor.shape))
