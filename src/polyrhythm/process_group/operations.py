"""The reductions of torch.distributed, in terms of `shared_memory`."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.distributed import ReduceOp

from polyrhythm.core.shared_memory import Operation
from polyrhythm.errors import CompositionError

_BITWISE = {Operation.AND, Operation.OR, Operation.XOR}


@dataclass(frozen=True, slots=True)
class Reduction:
    """The operation on two numbers, and whether to divide by the number of ranks in the end."""

    operation: Operation
    mean: bool

    def divisor(self, ranks: int) -> float:
        """The divisor of the result: the number of ranks for a mean, else 1."""
        return float(ranks) if self.mean else 1.0

    def check(self, tensor: Tensor) -> None:
        """Raises CompositionError for numbers that cannot be reduced so."""
        fractional = tensor.dtype.is_floating_point or tensor.dtype.is_complex
        if self.operation in _BITWISE and fractional:
            raise CompositionError(f"Cannot use {self.operation.name} on {tensor.dtype}: give integers or booleans.")
        if self.mean and not fractional:
            raise CompositionError(f"Cannot average {tensor.dtype}, because means are not integers: use ReduceOp.SUM and divide yourself.")


_REDUCTIONS = {
    op.value: reduction  # torch's own numbers: its enumeration takes microseconds to be looked up
    for op, reduction in (
        (ReduceOp.SUM, Reduction(Operation.SUM, False)),
        (ReduceOp.AVG, Reduction(Operation.SUM, True)),
        (ReduceOp.PRODUCT, Reduction(Operation.PRODUCT, False)),
        (ReduceOp.MIN, Reduction(Operation.MINIMUM, False)),
        (ReduceOp.MAX, Reduction(Operation.MAXIMUM, False)),
        (ReduceOp.BAND, Reduction(Operation.AND, False)),
        (ReduceOp.BOR, Reduction(Operation.OR, False)),
        (ReduceOp.BXOR, Reduction(Operation.XOR, False)),
    )
}


def reduction(op: ReduceOp) -> Reduction:
    """Raises CompositionError for PREMUL_SUM, which gloo does not know either."""
    kind = op.op  # type: ignore[attr-defined]
    found = _REDUCTIONS.get(kind.value)
    if found is None:
        raise CompositionError(
            f"The backend polyrhythm has no {kind}: multiply the tensor first and use ReduceOp.SUM; with fully_shard call "
            "set_force_sum_reduction_for_comms(True)."
        )
    return found


def as_bytes(tensor: Tensor) -> Tensor:
    """The bytes of a contiguous tensor, flat."""
    return tensor.reshape(-1).view(torch.uint8)
