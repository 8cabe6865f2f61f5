"""Floating-point operations, counted while a program runs: forward, backward, whatever reaches torch's kernels.

Counted are products of matrices, convolutions, attention and recurrent layers, which make up nearly all of a model's
arithmetic: a multiplication and an addition are two operations. What is element by element (activations, normalization,
optimizers) is not counted.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from math import prod
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.autograd.graph import increment_version
from torch.utils._python_dispatch import TorchDispatchMode

from polyrhythm.core.torch_private.one_process import dispatch_mode, has_shapes_only, wraps_tensors
from polyrhythm.errors import WorkloadError

aten = torch.ops.aten
Formula = Callable[..., int]


class OperationCounter(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Adds up in `flops` the operations of torch on this thread, between `start` and `stop`.

    The dispatch costs about 6 µs for each torch operation, counted or not (8.3 in place of 2.1 for an addition of 16 elements).
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.flops = 0

    def __torch_dispatch__(self, func: Any, types: Sequence[type], args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None) -> Any:
        formula = _FORMULAS.get(func)
        out = func(*args, **kwargs) if kwargs else func(*args)
        if formula is not None:
            self.flops += formula(out, *args)
        return out

    @property
    def is_on_top(self) -> bool:
        """True if it counts, and no mode of the program's own is on top of it."""
        return dispatch_mode() is self

    def refuse_if_covered(self) -> None:
        """Refuse to stop counting where the program has put another mode on top, which would be taken off in its place."""
        if dispatch_mode() is not self:
            raise WorkloadError(
                "A worker of the simulator cannot communicate inside its own TorchDispatchMode, because all workers share one thread. "
                "Leave the mode first, or give the simulator's devices a measured profile, so that it need not count operations."
            )

    start: ClassVar[Callable[..., Any]] = TorchDispatchMode.__enter__
    """Start to count the operations that follow."""

    def stop(self) -> int:
        """Stop counting; returns what was counted since the last `stop` or `take`."""
        self.__exit__(None, None, None)  # type: ignore[no-untyped-call]
        counted, self.flops = self.flops, 0
        return counted

    def take(self) -> int:
        """Return what was counted since the last `stop` or `take`; counting continues."""
        counted, self.flops = self.flops, 0
        return counted


class CounterOfThread(OperationCounter):  # type: ignore[no-untyped-call]
    """The counter of a program that has its thread for itself: it counts all the time, below the modes of the program."""

    is_on_top = True

    def __init__(self, uncharged: Counter[str] | None = None) -> None:
        super().__init__()
        self._uncharged: Counter[str] = Counter() if uncharged is None else uncharged
        """Calls of operations that take time and have no formula."""

    def __torch_dispatch__(self, func: Any, types: Sequence[type], args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None) -> Any:
        if any(map(wraps_tensors, types)):  # such as DTensor: it makes operations of plain tensors, which are counted
            return NotImplemented
        if any(map(has_shapes_only, types)):
            return func(*args, **(kwargs or {}))
        if func not in _FORMULAS:
            name = _KNOWN.get(func)
            if name is None:
                name = _KNOWN[func] = _slow(func)
            if name:
                self._uncharged[name] += 1
        return super().__torch_dispatch__(func, types, args, kwargs)

    def start(self) -> None:
        """It counts already."""

    def stop(self) -> int:
        return self.take()

    def refuse_if_covered(self) -> None:
        """It need not stop."""


_CHEAP = ("prim", "c10d", "_c10d_functional", "_c10d_functional_autograd", "fsdp", "_dtensor", "profiler")
"""Namespaces of torch's own operations that compute next to nothing, or communicate."""
_SLOW = re.compile(
    r"linalg_(?!vector_norm)|_linalg|fft_|_fft|sort|topk|kthvalue|cholesky|svd|(geq)?qr|l[us]tsq|inverse|lu_|_lu|_?cdist|unique|histc|searchsorted"
)
_KNOWN: dict[Any, str] = {}
"""By operation, the name under which one that has no formula is listed; "" for the quick ones, such as those element by element."""


def _slow(func: Any) -> str:
    namespace, _, name = str(func.name()).partition("::")
    if namespace == "aten":
        return f"aten::{name.partition('.')[0]}" if _SLOW.match(name) else ""
    return "" if namespace in _CHEAP else f"{namespace}::{name.partition('.')[0]}"


def _product(out: Tensor, a: Tensor, *others: Any) -> int:
    """`a` @ b, also in batches: each element of `out` is a sum over the last dimension of `a`."""
    return 2 * out.numel() * a.shape[-1]


def _added_product(out: Tensor, added: Tensor, a: Tensor, *others: Any) -> int:
    return 2 * out.numel() * a.shape[-1]


def _dot(out: Tensor, a: Tensor, *others: Any) -> int:
    return 2 * a.numel()


def _convolution_of(narrow: Tensor, wide: Tensor, weight: Tensor, transposed: bool) -> int:
    """`wide` is the input and `narrow` the output; a transposed convolution is the other way around."""
    return 2 * (wide if transposed else narrow).numel() * prod(weight.shape[1:])


def _convolution(out: Tensor, x: Tensor, weight: Tensor, *others: Any) -> int:
    transposed = bool(others[4]) if len(others) > 4 else False
    return _convolution_of(out, x, weight, transposed)


def _transposed_convolution(out: Tensor, x: Tensor, weight: Tensor, *others: Any) -> int:
    return _convolution_of(out, x, weight, True)


def _convolution_backward(out: Any, gradient: Tensor, x: Tensor, weight: Tensor, *others: Any) -> int:
    transposed, wanted = bool(others[4]), others[7]
    return (int(wanted[0]) + int(wanted[1])) * _convolution_of(gradient, x, weight, transposed)


def _attention(out: Any, query: Tensor, key: Tensor, value: Tensor, *others: Any) -> int:
    """The scores and their product with the values; a causal mask saves nothing here, as in the usual count."""
    rows, columns = prod(query.shape[:-1]), key.shape[-2]
    return 2 * rows * columns * (query.shape[-1] + value.shape[-1])


def _attention_backward(out: Any, gradient: Tensor, query: Tensor, key: Tensor, value: Tensor, *others: Any) -> int:
    """The scores once more, and two products for each of the two of the way forward."""
    rows, columns, width = prod(query.shape[:-1]), key.shape[-2], query.shape[-1]
    return 2 * rows * columns * (3 * width + 2 * value.shape[-1])


def _recurrent(out: Any, x: Tensor, inputs: Tensor, hidden: Tensor, *others: Any) -> int:
    return 2 * (x.numel() // x.shape[-1]) * (inputs.numel() + hidden.numel())


def _recurrent_backward(out: Any, x: Tensor, inputs: Tensor, hidden: Tensor, *others: Any) -> int:
    return 2 * _recurrent(out, x, inputs, hidden)


def _written(out: Any, tensors: Sequence[Tensor], *others: Any) -> int:
    """No operations that count. Below a dispatch mode torch forgets that these have written to `tensors`, on which autograd relies."""
    increment_version(tensors)
    return 0


_NAMED: dict[str, Formula] = {
    "mm": _product,
    "bmm": _product,
    "mv": _product,
    "matmul": _product,
    "linear": _product,
    "addmm": _added_product,
    "baddbmm": _added_product,
    "addmv": _added_product,
    "addbmm": lambda out, added, a, *others: 2 * out.numel() * a.shape[0] * a.shape[-1],
    "dot": _dot,
    "convolution": _convolution,
    "_convolution": _convolution,
    "conv1d": _convolution,
    "conv2d": _convolution,
    "conv3d": _convolution,
    "conv_transpose1d": _transposed_convolution,
    "conv_transpose2d": _transposed_convolution,
    "conv_transpose3d": _transposed_convolution,
    "convolution_backward": _convolution_backward,
    "_scaled_dot_product_flash_attention": _attention,
    "_scaled_dot_product_flash_attention_for_cpu": _attention,
    "_scaled_dot_product_efficient_attention": _attention,
    "_scaled_dot_product_flash_attention_backward": _attention_backward,
    "_scaled_dot_product_flash_attention_for_cpu_backward": _attention_backward,
    "_scaled_dot_product_efficient_attention_backward": _attention_backward,
    "mkldnn_rnn_layer": _recurrent,
    "mkldnn_rnn_layer_backward": _recurrent_backward,
}


_NAMED |= {name: _written for name in dir(torch) if name.startswith("_foreach_") and name.endswith("_")}


def _overloads() -> dict[Any, Formula]:
    """The formulas by operation, as torch hands operations to a dispatch mode."""
    found: dict[Any, Formula] = {}
    for name, formula in _NAMED.items():
        packet = getattr(aten, name)
        for overload in packet.overloads():
            found[getattr(packet, overload)] = formula
    return found


_FORMULAS = _overloads()
