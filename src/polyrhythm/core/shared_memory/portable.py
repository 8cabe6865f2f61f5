"""The engine with torch alone: the same steps as `_native.c`, to be read next to it."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Sequence
from functools import partial, wraps
from typing import Concatenate, ParamSpec

import torch
from torch import Tensor

from polyrhythm.core.shared_memory.engine import CODES, ONE_ROUND, OTHER, Attachment, Disagreement, ReduceSpec, lengths
from polyrhythm.core.shared_memory.segment import BUFFERS, LINE

_REDUCE, _REDUCE_SCATTER, _GATHER, _EXCHANGE, _BROADCAST, _BARRIER, _GATHER_PIECES, _SCATTER_PIECES = range(8)
_SIGNS = 32

_NAP_SECONDS = 50e-6
_LONGEST_NAP_SECONDS = 1e-3
_NAPS_BEFORE_LONGER = 20
_FUTEX = 202
"""The number of that call on x86-64."""
_WAKE, _EVERYONE = 1, 2**31 - 1

OPERATIONS: tuple[Callable[[Tensor, Tensor], Tensor], ...] = (
    torch.add, torch.mul, torch.minimum, torch.maximum, torch.bitwise_and, torch.bitwise_or, torch.bitwise_xor,
)  # fmt: skip

P = ParamSpec("P")


def _at_once(deed: Callable[Concatenate[Portable, P], None]) -> Callable[Concatenate[Portable, P], None]:
    """A collective that ended in the middle, by Ctrl-C for example, leaves the ranks out of step, and none may follow it."""

    @wraps(deed)
    def whole(self: Portable, /, *args: P.args, **kwargs: P.kwargs) -> None:
        try:
            deed(self, *args, **kwargs)
        except BaseException:
            self._broken = True
            raise

    return whole


class Portable:
    """Counters are read and written through numpy, whole words at a time; x86-64 keeps their order, and elsewhere `can_share` is False."""

    def __init__(self, attachment: Attachment) -> None:
        self._attachment = attachment
        self._rank, self._ranks = attachment.rank, attachment.ranks
        base = attachment.segment.base
        head = LINE * attachment.ranks
        self._counts = base[:head].view(torch.int32).numpy()[:: LINE // 4]
        self._signs = base[:head].numpy().view("uint64").reshape(attachment.ranks, -1)[:, _SIGNS // 8 :]
        self._buffers = base[head:].view(attachment.ranks, BUFFERS, attachment.chunk)
        word = ctypes.c_void_p(base.data_ptr() + LINE * attachment.rank)
        self._wake = partial(ctypes.CDLL(None).syscall, ctypes.c_long(_FUTEX), word, _WAKE, _EVERYONE, None)
        self._gone = [False] * attachment.ranks
        self._step = 0
        self._opened = 0
        self._broken = False

    def lose(self, rank: int) -> None:
        """Mark `rank` as lost, which a wait for it notices at the end of a nap."""
        self._gone[rank] = True

    @_at_once
    def reduce(self, tensor: Tensor, into: Tensor, how: ReduceSpec) -> None:
        if how.kept is None:
            self._add_up_all(tensor.view(-1), into.view(-1), how)
            return
        how.kept.copy_(tensor)
        try:
            self._add_up_all(tensor.view(-1), into.view(-1), how)
        except ConnectionAbortedError:
            into.copy_(how.kept)
            raise

    def _add_up_all(self, flat: Tensor, out: Tensor, how: ReduceSpec) -> None:
        self._begin(_REDUCE, flat.dtype, _detail(how), _nbytes(flat))
        if flat.numel() * flat.element_size() <= min(ONE_ROUND, self._attachment.chunk):
            self._write(self._rank, flat)
            self._count_and_await(1)
            out.copy_(self._added(flat, 0, 0, flat.numel(), how))
            self._step += 1
            return
        most = self._attachment.chunk // flat.element_size()
        for start in range(0, flat.numel(), most):
            chunk = flat[start : start + most]
            self._write(self._rank, chunk)
            self._count_and_await(1)
            own = [_bound(len(chunk), self._ranks, self._rank + i) for i in (0, 1)]
            self._read(self._rank, chunk)[own[0] : own[1]] = self._added(flat, start, start + own[0], start + own[1], how)
            self._count_and_await(2)
            for rank in range(self._ranks):
                low, high = (_bound(len(chunk), self._ranks, rank + i) for i in (0, 1))
                out[start + low : start + high] = self._read(rank, chunk)[low:high]
            self._step += 1

    @_at_once
    def reduce_scatter(self, tensor: Tensor, into: Tensor, how: ReduceSpec) -> None:
        parts, out = tensor.view(self._ranks, -1), into.view(-1)
        self._begin(_REDUCE_SCATTER, tensor.dtype, _detail(how), _nbytes(parts))
        most = self._attachment.chunk // self._ranks // tensor.element_size()
        for start in range(0, out.numel(), most):
            piece = parts[:, start : start + most]
            for rank in range(self._ranks):
                self._slot(self._rank, rank, most, piece[rank])[:] = piece[rank]
            self._count_and_await(1)
            total = self._slot(0, self._rank, most, piece[0]).clone()
            for rank in range(1, self._ranks):
                total = OPERATIONS[how.operation](total, self._slot(rank, self._rank, most, piece[0]))
            out[start : start + most] = _divided(total, how)
            self._step += 1

    @_at_once
    def gather(self, tensor: Tensor, into: Tensor) -> None:
        own, parts = tensor.view(-1).view(torch.uint8), into.view(-1).view(torch.uint8).view(self._ranks, -1)
        self._begin(_GATHER, tensor.dtype, 0, own.numel())
        for start in range(0, own.numel(), self._attachment.chunk):
            piece = own[start : start + self._attachment.chunk]
            self._write(self._rank, piece)
            self._count_and_await(1)
            for rank in range(self._ranks):
                parts[rank, start : start + self._attachment.chunk] = self._read(rank, piece)
            self._step += 1

    @_at_once
    def exchange(self, tensor: Tensor, into: Tensor) -> None:
        own, parts = (each.view(-1).view(torch.uint8).view(self._ranks, -1) for each in (tensor, into))
        self._begin(_EXCHANGE, tensor.dtype, 0, own.shape[1])
        most = self._attachment.chunk // self._ranks
        for start in range(0, own.shape[1], most):
            piece = own[:, start : start + most]
            for rank in range(self._ranks):
                self._slot(self._rank, rank, most, piece[rank])[:] = piece[rank]
            self._count_and_await(1)
            for rank in range(self._ranks):
                parts[rank, start : start + most] = self._slot(rank, self._rank, most, piece[0])
            self._step += 1

    @_at_once
    def broadcast(self, tensor: Tensor, root: int) -> None:
        flat = tensor.view(-1).view(torch.uint8)
        self._begin(_BROADCAST, tensor.dtype, root, flat.numel())
        for start in range(0, flat.numel(), self._attachment.chunk):
            piece = flat[start : start + self._attachment.chunk]
            if self._rank == root:
                self._write(root, piece)
            self._count_and_await(1)
            if self._rank != root:
                piece.copy_(self._read(root, piece))
            self._step += 1

    @_at_once
    def gather_pieces(self, own: Sequence[Tensor], places: Sequence[Sequence[Tensor]]) -> None:
        sizes, first = [sum(map(_nbytes, pieces)) for pieces in places], next(piece for pieces in places for piece in pieces)
        given, found = _bytes_of(own), [torch.empty(size, dtype=torch.uint8) for size in sizes]
        self._begin(_GATHER_PIECES, first.dtype, lengths(sizes), sum(sizes))
        for start in range(0, max(sizes), self._attachment.chunk):
            self._write(self._rank, given[start : start + self._attachment.chunk])
            self._count_and_await(1)
            for rank, whole in enumerate(found):
                piece = whole[start : start + self._attachment.chunk]
                piece.copy_(self._read(rank, piece))
            self._step += 1
        for pieces, whole in zip(places, found, strict=True):
            _fill(pieces, whole)

    @_at_once
    def scatter_pieces(self, parts: Sequence[Sequence[Tensor]], into: Sequence[Tensor], how: ReduceSpec) -> None:
        given, first = [_bytes_of(pieces) for pieces in parts], next(piece for pieces in parts for piece in pieces)
        found = torch.empty_like(given[self._rank])
        self._begin(
            _SCATTER_PIECES, first.dtype, _detail(how) | lengths(list(map(Tensor.numel, given))) << 5, sum(map(Tensor.numel, given))
        )
        most = self._attachment.chunk // self._ranks // 64 * 64
        for start in range(0, max(map(Tensor.numel, given)), most):
            for rank, whole in enumerate(given):
                piece = whole[start : start + most]
                if rank != self._rank:
                    self._slot(self._rank, rank, most, piece).copy_(piece)
            self._count_and_await(1)
            own = given[self._rank][start : start + most]
            order = [(self._rank + 1 + turn) % self._ranks for turn in range(self._ranks)]
            ranks = [own if rank == self._rank else self._slot(rank, self._rank, most, own) for rank in order]
            total, *others = [piece.view(first.dtype) for piece in ranks]
            for other in others:
                total = OPERATIONS[how.operation](total, other)
            found[start : start + most] = _divided(total, how).view(torch.uint8)
            self._step += 1
        _fill(into, found)

    @_at_once
    def barrier(self) -> None:
        self._begin(_BARRIER, torch.float32, 0, 0)
        self._count_and_await(1)
        self._step += 1

    def _added(self, flat: Tensor, start: int, low: int, high: int, how: ReduceSpec) -> Tensor:
        """The sum of [low, high) of a tensor whose chunk begins at `start` and lies in the buffers."""
        chunk, pieces = flat[start:], []
        while low < high:
            first = 0
            end = high
            if how.rotated:
                while first + 1 < self._ranks and _bound(how.whole, self._ranks, first + 1) <= how.start + low:
                    first += 1
                end = min(high, _bound(how.whole, self._ranks, first + 1) - how.start)
            total = self._read(first, chunk)[low - start : end - start]
            for turn in range(1, self._ranks):
                total = OPERATIONS[how.operation](total, self._read((first + turn) % self._ranks, chunk)[low - start : end - start])
            pieces.append(_divided(total, how))
            low = end
        return torch.cat(pieces) if pieces else flat[:0]

    def _slot(self, rank: int, place: int, most: int, like: Tensor) -> Tensor:
        size = like.element_size()
        at = place * most * size
        return self._buffers[rank, self._step % BUFFERS, at : at + like.numel() * size].view(like.dtype)

    def _read(self, rank: int, like: Tensor) -> Tensor:
        nbytes = min(like.numel() * like.element_size(), self._attachment.chunk // like.element_size() * like.element_size())
        return self._buffers[rank, self._step % BUFFERS, :nbytes].view(like.dtype)

    def _write(self, rank: int, piece: Tensor) -> None:
        self._read(rank, piece).copy_(piece)

    def _begin(self, kind: int, dtype: torch.dtype, detail: int, nbytes: int) -> None:
        """Publish what this rank is about to do; others see it when it counts."""
        if self._broken:
            raise ConnectionAbortedError("a collective was given up, so that ranks are out of step")
        self._opened = self._step
        sign = nbytes << 24 | (detail & 0xFFFF) << 8 | CODES.get(dtype, OTHER) << 3 | kind
        self._signs[self._rank, self._step % BUFFERS] = sign & 0xFFFFFFFFFFFFFFFF

    def _count_and_await(self, context: int) -> None:
        target = (2 * self._step + context) & 0xFFFFFFFF
        self._counts[self._rank] = target - (1 << 32) if target >> 31 else target
        self._wake()  # an engine in C may sleep on it
        for rank in range(self._ranks):
            self._await(rank, target)
            if self._step == self._opened:
                self._compare(rank)

    def _compare(self, rank: int) -> None:
        slot = self._step % BUFFERS
        if self._signs[rank, slot] != self._signs[self._rank, slot]:
            self._broken = True
            raise Disagreement(
                f"ranks disagree: rank {rank} of the group began another collective than rank {self._rank}, or one of another size or "
                "type; all must call the same ones in the same order"
            )

    def _await(self, rank: int, target: int) -> None:
        naps = 0
        while True:
            gone = self._gone[rank]  # looked at first: what it gave before it was lost counts
            if not (int(self._counts[rank]) - target) & 0x80000000:
                return
            if gone:
                raise ConnectionAbortedError("the wait for another rank was given up")
            naps += 1
            if naps > min(self._attachment.spins, _NAPS_BEFORE_LONGER):
                time.sleep(_NAP_SECONDS if naps < 10 * _NAPS_BEFORE_LONGER else _LONGEST_NAP_SECONDS)


def _detail(how: ReduceSpec) -> int:
    return how.operation | how.rotated << 3 | (how.divisor != 1) << 4


def _nbytes(tensor: Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def _bytes_of(pieces: Sequence[Tensor]) -> Tensor:
    return torch.cat([torch.empty(0, dtype=torch.uint8), *(piece.detach().reshape(-1).view(torch.uint8) for piece in pieces)])


def _fill(pieces: Sequence[Tensor], whole: Tensor) -> None:
    for piece, part in zip(pieces, torch.split(whole, list(map(_nbytes, pieces))), strict=True):
        piece.detach().view(-1).view(torch.uint8).copy_(part)


def _divided(total: Tensor, how: ReduceSpec) -> Tensor:
    return total / how.divisor if how.divisor != 1 else total


def _bound(numel: int, parts: int, part: int) -> int:
    """The first element of part `part`, as torch.tensor_split cuts."""
    each, rest = divmod(numel, parts)
    return each * part + min(part, rest)
