"""The collectives of torch.distributed on tensors of any shape and stride, made of the few that `sharing` has.

Every method returns when this rank's part is done, and all ranks must call the same ones in the same order. Tensors are dense
and on the CPU. What has other strides than a fresh tensor is copied there and back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from polyrhythm.core.shared_memory import MemoryGroup
from polyrhythm.errors import CompositionError
from polyrhythm.process_group.operations import Reduction

_HALVES = (torch.float16, torch.bfloat16)
_ALL_TO_ALL = -1
"""A tag that no script has."""
_FEW_BYTES = 64 * 1024
"""Up to so many bytes of half precision everyone adds up everything: one round less."""
_SMALL_EXCHANGE = 512 * 1024
"""Where all ranks together have at most so many bytes, an all-to-all is one gather of everything, with fewer waits than messages."""


class Transferring(Protocol):
    """Sends and receives between the members."""

    def send(self, tensor: Tensor, to: int, tag: int) -> Any:
        """Begin to send."""

    def receive(self, tensor: Tensor, source: int | None, tag: int) -> Any:
        """Begin to receive."""


class MemoryCollectives:
    """The collectives of `group`, in shared memory; what goes from one to one goes through `transfers`."""

    def __init__(self, group: MemoryGroup, transfers: Transferring) -> None:
        self._group = group
        self._transfers = transfers
        self._rank, self._ranks = group.rank, group.ranks

    def reduce_all(self, tensors: Sequence[Tensor], how: Reduction) -> None:
        """Each of `tensors` becomes its reduction over the ranks."""
        for tensor in tensors:
            flat = how.scaled(flattened(tensor))
            self._reduce(flat, flat, how)
            put_back(tensor, flat)

    def sum_sparse(self, tensors: Sequence[Tensor]) -> None:
        """Each of the sparse `tensors` becomes its sum over the ranks."""
        for tensor in tensors:
            own = tensor.detach().coalesce()
            counts = self._everyones(torch.tensor([own.values().shape[0]])).view(-1).tolist()
            parts = []
            for part in (own.indices().t(), own.values()):
                outputs = [torch.empty(count, *part.shape[1:], dtype=part.dtype) for count in counts]
                self.gather_lists([outputs], [part])
                parts.append(torch.cat(outputs))
            replace_sparse(tensor, parts[0].t(), parts[1])

    def reduce_to(self, tensors: Sequence[Tensor], how: Reduction, root: int) -> None:
        """Reduce `tensors` at rank `root` only; the other ranks keep theirs."""
        for tensor in tensors:
            flat = how.scaled(flattened(tensor))
            total = flat if self._rank == root else torch.empty_like(flat)
            self._reduce(flat, total, how)
            if self._rank == root:
                put_back(tensor, total)

    def broadcast(self, tensors: Sequence[Tensor], root: int) -> None:
        """Each of `tensors` becomes what it is at rank `root`."""
        for tensor in tensors:
            flat = flattened(tensor)
            self._group.broadcast(flat, root)
            put_back(tensor, flat)

    def gather_flat(self, pairs: Sequence[tuple[Tensor, Tensor]]) -> None:
        """For each pair (output, input): everyone's input, one after another in rank order, into the output."""
        for output, own in pairs:
            whole = flattened(output)
            self._group.gather(flattened(own), whole)
            put_back(output, whole)

    def gather_lists(self, lists: Sequence[Sequence[Tensor]], owns: Sequence[Tensor]) -> None:
        """For each list of P outputs and its input: rank r's input into output r. Inputs may differ in size between ranks."""
        for outputs, own in zip(lists, owns, strict=True):
            if all(output.numel() == own.numel() for output in outputs):
                self._spread(self._everyones(own), outputs)
            else:
                for rank, output in enumerate(outputs):
                    piece = flattened(own) if rank == self._rank else flattened(output)
                    self._group.broadcast(piece, rank)
                    put_back(output, piece)

    def gather_to(self, outputs: Sequence[Tensor], own: Tensor, root: int) -> None:
        """Rank r's `own` into output r of the root, the one rank that has any."""
        everyones = self._everyones(own)
        if outputs:
            self._spread(everyones, outputs)

    def scatter(self, output: Tensor, pieces: Sequence[Tensor], root: int) -> None:
        """Piece r of rank `root`, the one that has any, into rank r's `output`."""
        if self._rank == root:
            whole = torch.cat([flattened(piece).view(-1) for piece in pieces])
        else:
            whole = torch.empty(self._ranks * output.numel(), dtype=output.dtype)
        self._group.broadcast(whole, root)
        output.data.copy_(whole.view(self._ranks, -1)[self._rank].view(output.shape))

    def scatter_reduced(self, pairs: Sequence[tuple[Tensor, Tensor]], how: Reduction) -> None:
        """For each pair (output, input of P times its size): part `rank` of the reduced input into the output."""
        for output, own in pairs:
            part = flattened(output)
            self._group.reduce_scatter(how.scaled(flattened(own)), part, how.operation, how.divisor(self._ranks))
            put_back(output, part)

    def scatter_reduced_list(self, output: Tensor, owns: Sequence[Tensor], how: Reduction) -> None:
        """Input `rank` of P, reduced, into `output`. Inputs may differ in size."""
        whole = torch.cat([flattened(own).view(-1) for own in owns])
        if all(own.numel() == output.numel() for own in owns):
            self.scatter_reduced([(output, whole)], how)
        else:
            whole = how.scaled(whole)
            self._reduce(whole, whole, how)
            output.data.copy_(torch.split(whole, [own.numel() for own in owns])[self._rank].view(output.shape))

    def exchange_lists(self, outputs: Sequence[Tensor], owns: Sequence[Tensor]) -> None:
        """Tensor k of `owns` to rank k, and what rank k has for me into output k; all may differ in size."""
        self._exchange(self._sizes(owns), outputs, owns)

    def exchange_rows(self, whole: tuple[Tensor, Tensor], outputs: Sequence[Tensor], owns: Sequence[Tensor]) -> None:
        """The same for parts of one output and one input, `whole`."""
        self._exchange(self._sizes(owns), outputs, owns)

    def barrier(self) -> None:
        """Return when all have come."""
        self._group.barrier()

    def _reduce(self, flat: Tensor, into: Tensor, how: Reduction) -> None:
        """`into` may be `flat`."""
        divisor = how.divisor(self._ranks)
        if flat.dtype not in _HALVES or flat.numel() * flat.element_size() <= _FEW_BYTES:
            self._group.reduce(flat, into, how.operation, divisor)
            return
        each = -(-flat.numel() // self._ranks)
        padded = torch.nn.functional.pad(flat.view(-1), (0, each * self._ranks - flat.numel()))
        part = torch.empty(each, dtype=flat.dtype)
        self._group.reduce_scatter(padded, part, how.operation, divisor)
        self._group.gather(part, padded)
        into.copy_(padded[: flat.numel()].view(into.shape))

    def _sizes(self, owns: Sequence[Tensor]) -> Tensor:
        """The bytes that each rank (row) has for each (column)."""
        sent = torch.tensor([own.numel() * own.element_size() for own in owns])
        sizes = torch.empty(self._ranks, self._ranks, dtype=torch.int64)
        self._group.gather(sent, sizes)
        return sizes

    def _exchange(self, sizes: Tensor, outputs: Sequence[Tensor], owns: Sequence[Tensor]) -> None:
        come, room = sizes[:, self._rank].tolist(), [output.numel() * output.element_size() for output in outputs]
        small = self._ranks * int(sizes.sum(1).max()) <= _SMALL_EXCHANGE
        fits, sent = come == room, self._sent_small if small else self._sent
        sent(sizes, outputs if fits else [torch.empty(nbytes, dtype=torch.uint8) for nbytes in come], owns)
        if not fits:
            raise CompositionError(
                f"An all-to-all sent {come} bytes to rank {self._rank}, whose outputs have room for {room}: "
                "give outputs of the sizes that the others send."
            )

    def _sent(self, sizes: Tensor, outputs: Sequence[Tensor], owns: Sequence[Tensor]) -> None:
        """Each piece in a message of its own."""
        works = []
        for distance in range(1, self._ranks):
            source = (self._rank - distance) % self._ranks
            works.append(self._transfers.receive(outputs[source], source, _ALL_TO_ALL))
        for distance in range(1, self._ranks):
            to = (self._rank + distance) % self._ranks
            works.append(self._transfers.send(owns[to], to, _ALL_TO_ALL))
        _copy_bytes(flattened(owns[self._rank]), outputs[self._rank])
        for work in works:
            work.wait()

    def _sent_small(self, sizes: Tensor, outputs: Sequence[Tensor], owns: Sequence[Tensor]) -> None:
        """Everyone gets everything, and keeps its part."""
        own = torch.cat([_bytes(flattened(tensor)) for tensor in owns])
        everyones = self._everyones(torch.nn.functional.pad(own, (0, int(sizes.sum(1).max()) - own.numel())))
        starts = (sizes.cumsum(1) - sizes)[:, self._rank].tolist()
        for pieces, start, output in zip(everyones, starts, outputs, strict=True):
            _copy_bytes(pieces[start : start + output.numel() * output.element_size()].clone(), output)  # aligned to any type

    def _everyones(self, own: Tensor) -> Tensor:
        whole = torch.empty(self._ranks * own.numel(), dtype=own.dtype)
        self._group.gather(flattened(own), whole)
        return whole.view(self._ranks, -1)

    def _spread(self, everyones: Tensor, outputs: Sequence[Tensor]) -> None:
        for output, piece in zip(outputs, everyones, strict=True):
            output.data.copy_(piece.view(output.shape))


def flattened(tensor: Tensor) -> Tensor:
    """The numbers of `tensor` one after another: itself where it is so, else a copy. Autograd does not see what happens to it, nor does
    a backward pass for which it was saved, as with gloo."""
    return tensor.data.contiguous()


def _bytes(flat: Tensor) -> Tensor:
    return flat.view(-1).view(torch.uint8)


def _copy_bytes(flat: Tensor, output: Tensor) -> None:
    """The bytes of `flat` into `output`, of as many."""
    output.data.copy_(_bytes(flat).view(output.dtype).view(output.shape))


def replace_sparse(tensor: Tensor, indices: Tensor, values: Tensor) -> None:
    """Let the sparse `tensor` be the sum of `values` at `indices`."""
    with torch.no_grad():  # a detached tensor would get these for itself
        tensor.copy_(torch.sparse_coo_tensor(indices, values, tensor.shape, check_invariants=False).coalesce())


def put_back(tensor: Tensor, flat: Tensor) -> None:
    if flat.data_ptr() != tensor.data_ptr():
        tensor.data.copy_(flat.view(tensor.shape))
