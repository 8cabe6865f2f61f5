"""The reductions of torch.distributed, in terms of `shared_memory`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.distributed import ReduceOp

from polyrhythm.core.shared_memory import Operation
from polyrhythm.core.torch_private.distributed import factor_of
from polyrhythm.errors import CompositionError

_BITWISE = {Operation.AND, Operation.OR, Operation.XOR}


@dataclass(frozen=True, slots=True)
class Reduction:
    """The operation on two numbers, whether to divide by the number of ranks in the end, and by what each rank multiplies its numbers."""

    operation: Operation
    mean: bool
    factor: float | Tensor | None = None

    def __str__(self) -> str:
        """The name that torch has for it."""
        return "AVG" if self.mean else self.operation.name if self.factor is None else f"PREMUL_SUM by {self.factor}"

    def scaled(self, own: Tensor) -> Tensor:
        """What a rank contributes."""
        return own if self.factor is None else own * self.factor

    def finish(self, total: Tensor, ranks: int) -> Tensor:
        """The result, of the operation over all ranks."""
        return total / ranks if self.mean else total

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
    """The reduction that torch's `op` is. Raises CompositionError for an operation that torch has added since."""
    kind = op.op  # type: ignore[attr-defined]
    if (found := _REDUCTIONS.get(kind.value)) is not None:
        return found
    if kind == ReduceOp.PREMUL_SUM:
        return Reduction(Operation.SUM, False, factor_of(op))
    raise CompositionError(f"The backend polyrhythm has no reduction {kind}: use another, and compute the rest in the script.")


_APPLIED: dict[Operation, Callable[[Tensor, Tensor], Tensor]] = {
    Operation.SUM: torch.add,
    Operation.PRODUCT: torch.mul,
    Operation.MINIMUM: torch.minimum,
    Operation.MAXIMUM: torch.maximum,
    Operation.AND: torch.bitwise_and,
    Operation.OR: torch.bitwise_or,
    Operation.XOR: torch.bitwise_xor,
}


def apply(operation: Operation, a: Tensor, b: Tensor) -> Tensor:
    """`operation` on two tensors, element by element."""
    return _APPLIED[operation](a, b)
