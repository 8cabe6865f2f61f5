"""Tensors whose numbers are at servers: what an optimizer of torch does with them becomes orders.

`torch.optim.LBFGS` and others of its kind run on them unchanged, at the coordinator: their dot products, sums and scalings are
carried out where the vectors are, and small messages alone are sent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any
from weakref import finalize

import torch
from torch import Tensor

from polyrhythm.core.torch_private.one_process import no_torch_function, without_numbers
from polyrhythm.core.whole_batch.orders import Deed, VectorOrder
from polyrhythm.errors import CompositionError

Send = Callable[[Sequence[VectorOrder]], list[list[float]]]
"""Sends orders to all servers; returns the answers of each."""


class VectorHandle:
    """A vector at the servers, by its `number`; when nobody has the handle any more, `free` hears of the number."""

    __slots__ = ("__weakref__", "number")

    def __init__(self, number: int, free: Callable[[int], object]) -> None:
        self.number = number
        finalize(self, free, number)


class RemoteVectors:
    """All vectors of one whole batch, of `numel` elements each, numbered up to `last`.

    Orders wait in `orders` until an answer is needed, or `flush`.
    """

    def __init__(self, numel: int, dtype: torch.dtype, send: Send) -> None:
        self.numel = numel
        self.dtype = dtype
        self.send = send
        self.orders: list[VectorOrder] = []
        self.freed: list[int] = []
        self.last = 0

    def weights(self) -> RemoteVector:
        """The vector with which the servers began."""
        return self.known(0)

    def known(self, number: int) -> RemoteVector:
        """A vector that the servers have already."""
        return RemoteVector(self, VectorHandle(number, self.freed.append))

    def made(self, deed: Deed, first: int = -1, second: int = -1, a: float = 0.0) -> RemoteVector:
        """The new vector that an order makes."""
        self.last += 1
        self.orders.append(VectorOrder(deed, self.last, first, second, a))
        return self.known(self.last)

    def write(self, into: RemoteVector, deed: Deed, first: int, second: int = -1, a: float = 0.0) -> RemoteVector:
        """The same vector, with other numbers in it."""
        self.orders.append(VectorOrder(deed, into.handle.number, first, second, a))
        return into

    def flush(self) -> list[list[float]]:
        """Send the orders that wait, and forget vectors that nobody has any more; the answers of each server."""
        freed, self.freed[:] = [*self.freed], []
        orders, self.orders = [*self.orders, *(VectorOrder(Deed.FREE, first=number) for number in freed)], []
        return self.send(orders) if orders else []

    def answer(self, deed: Deed, first: int, second: int = -1) -> Tensor:
        """The answer of all servers together, a tensor () of the vectors' type."""
        self.orders.append(VectorOrder(deed, -1, first, second))
        answers = [each[-1] for each in self.flush()]
        return torch.tensor(max(answers) if deed is Deed.MAX else sum(answers), dtype=self.dtype)


class RemoteVector(Tensor):
    """A vector (numel,) at the servers; it has no numbers here."""

    vectors: RemoteVectors
    handle: VectorHandle
    __torch_function__ = no_torch_function()

    @staticmethod
    def __new__(cls, vectors: RemoteVectors, handle: VectorHandle) -> RemoteVector:
        made: RemoteVector = without_numbers(cls, (vectors.numel,), vectors.dtype)
        made.vectors, made.handle = vectors, handle
        return made

    def __init__(self, vectors: RemoteVectors, handle: VectorHandle) -> None:
        pass

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        return f"<RemoteVector {self.handle.number} of {self.vectors.numel} elements>"

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        deed = _DEEDS.get(func)
        found = NotImplemented if deed is None else deed(*args, **(kwargs or {}))
        if found is NotImplemented:
            raise CompositionError(
                f"The optimizer calls {func} on its weights or gradients, which servers do not carry out: they copy, scale, add, and "
                "answer dot products, sums and largest elements. Use torch.optim.LBFGS, or an optimizer that needs no more."
            )
        return found


def _number(value: Any) -> float:
    """A number of Python's, or that of a tensor () that is here."""
    if type(value) is RemoteVector or (isinstance(value, Tensor) and value.numel() != 1):
        raise CompositionError("The optimizer multiplies two vectors element by element, which servers do not: use torch.optim.LBFGS.")
    return float(value)


def _copy(x: RemoteVector, **options: Any) -> RemoteVector:
    return x.vectors.made(Deed.COPY, x.handle.number)


def _copy_into(into: RemoteVector, x: RemoteVector, non_blocking: bool = False) -> Any:
    return into.vectors.write(into, Deed.COPY, x.handle.number) if type(x) is RemoteVector else NotImplemented


def _scale(x: RemoteVector, a: Any) -> RemoteVector:
    return x.vectors.made(Deed.SCALE, x.handle.number, a=_number(a))


def _scale_in_place(x: RemoteVector, a: Any) -> RemoteVector:
    return x.vectors.write(x, Deed.SCALE, x.handle.number, a=_number(a))


def _divide(x: RemoteVector, a: Any) -> RemoteVector:
    return _scale(x, 1 / _number(a))


def _divide_in_place(x: RemoteVector, a: Any) -> RemoteVector:
    return _scale_in_place(x, 1 / _number(a))


def _add(x: RemoteVector, y: Any, alpha: Any = 1) -> Any:
    if type(x) is not RemoteVector or type(y) is not RemoteVector:
        return NotImplemented
    return x.vectors.made(Deed.AXPY, x.handle.number, y.handle.number, _number(alpha))


def _add_in_place(x: RemoteVector, y: Any, alpha: Any = 1) -> Any:
    if type(y) is not RemoteVector:
        return NotImplemented
    return x.vectors.write(x, Deed.AXPY, x.handle.number, y.handle.number, _number(alpha))


def _subtract(x: RemoteVector, y: Any, alpha: Any = 1) -> Any:
    return _add(x, y, -_number(alpha))


def _subtract_in_place(x: RemoteVector, y: Any, alpha: Any = 1) -> Any:
    return _add_in_place(x, y, -_number(alpha))


def _norm(x: RemoteVector, order: Any = 2, *others: Any, **options: Any) -> Any:
    return x.vectors.answer(Deed.DOT, x.handle.number, x.handle.number).sqrt() if order == 2 and not others else NotImplemented


def _view(x: RemoteVector, shape: Sequence[int]) -> Any:
    return _alias(x) if tuple(shape) in ((x.numel(),), (-1,)) else NotImplemented


def _slice(x: RemoteVector, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1) -> Any:
    whole = dim == 0 and not start and step == 1 and (end is None or end >= x.numel())
    return _alias(x) if whole else NotImplemented


def _alias(x: RemoteVector) -> RemoteVector:
    return RemoteVector(x.vectors, x.handle)


def _joined(parts: Sequence[RemoteVector], dim: int = 0) -> Any:
    return _copy(parts[0]) if len(parts) == 1 else NotImplemented


_OPERATIONS = torch.ops.aten
_DEEDS: dict[Any, Callable[..., Any]] = {
    _OPERATIONS.clone.default: _copy,
    _OPERATIONS.detach.default: _alias,
    _OPERATIONS.alias.default: _alias,
    _OPERATIONS.copy_.default: _copy_into,
    _OPERATIONS.neg.default: lambda x: _scale(x, -1),
    _OPERATIONS.abs.default: lambda x: x.vectors.made(Deed.ABS, x.handle.number),
    _OPERATIONS.mul.Tensor: _scale,
    _OPERATIONS.mul.Scalar: _scale,
    _OPERATIONS.mul_.Tensor: _scale_in_place,
    _OPERATIONS.mul_.Scalar: _scale_in_place,
    _OPERATIONS.div.Tensor: _divide,
    _OPERATIONS.div_.Tensor: _divide_in_place,
    _OPERATIONS.add.Tensor: _add,
    _OPERATIONS.add_.Tensor: _add_in_place,
    _OPERATIONS.sub.Tensor: _subtract,
    _OPERATIONS.sub_.Tensor: _subtract_in_place,
    _OPERATIONS.zero_.default: lambda x: x.vectors.write(x, Deed.FILL, -1),
    _OPERATIONS.zeros_like.default: lambda x, **options: x.vectors.made(Deed.FILL),
    _OPERATIONS.dot.default: lambda x, y: x.vectors.answer(Deed.DOT, x.handle.number, y.handle.number),
    _OPERATIONS.sum.default: lambda x, **options: x.vectors.answer(Deed.SUM, x.handle.number),
    _OPERATIONS.max.default: lambda x: x.vectors.answer(Deed.MAX, x.handle.number),
    _OPERATIONS.linalg_vector_norm.default: _norm,
    _OPERATIONS.view.default: _view,
    _OPERATIONS._unsafe_view.default: _view,
    _OPERATIONS.slice.Tensor: _slice,
    _OPERATIONS.cat.default: _joined,
}
"""The operations of torch that become orders, or are none."""
