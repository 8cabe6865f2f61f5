"""The engine in C."""

from __future__ import annotations

from torch import Tensor

from polyrhythm.core.shared_memory._native import NativeGroup  # in this form, what is missing can be distinguished from what is broken
from polyrhythm.core.shared_memory.engine import CODES, OTHER, Attachment, ReduceSpec


class Native:
    """The engine in C: see `_native.c`."""

    def __init__(self, attachment: Attachment) -> None:
        self._attachment = attachment  # keeps the memory mapped
        self._group = NativeGroup(attachment.segment.base.data_ptr(), attachment.rank, attachment.ranks, attachment.chunk, attachment.spins)
        self.lose = self._group.lose
        self.barrier = self._group.barrier

    def reduce(self, tensor: Tensor, into: Tensor, how: ReduceSpec) -> None:
        code = CODES[tensor.dtype]
        addresses = tensor.data_ptr(), into.data_ptr(), 0 if how.kept is None else how.kept.data_ptr()
        self._group.reduce(*addresses, tensor.numel(), code, how.operation, how.divisor, how.rotated, how.start, how.whole)

    def reduce_scatter(self, tensor: Tensor, into: Tensor, how: ReduceSpec) -> None:
        code = CODES[tensor.dtype]
        self._group.reduce_scatter(tensor.data_ptr(), into.data_ptr(), tensor.numel(), code, how.operation, how.divisor)

    def gather(self, tensor: Tensor, into: Tensor) -> None:
        self._group.gather(tensor.data_ptr(), into.data_ptr(), tensor.numel() * tensor.element_size(), CODES.get(tensor.dtype, OTHER))

    def exchange(self, tensor: Tensor, into: Tensor) -> None:
        nbytes = into.numel() * into.element_size() // self._attachment.ranks
        self._group.exchange(tensor.data_ptr(), into.data_ptr(), nbytes, CODES.get(tensor.dtype, OTHER))

    def broadcast(self, tensor: Tensor, root: int) -> None:
        self._group.broadcast(tensor.data_ptr(), tensor.numel() * tensor.element_size(), root, CODES.get(tensor.dtype, OTHER))
