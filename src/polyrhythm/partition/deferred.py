"""Models that are built without memory for their weights, of which each rank then makes its pieces.

`worker.build(Net)` calls `Net()` so. What the model writes to its weights in `__init__`, by the functions of `torch.nn.init` or by methods
of tensors, is noted, and done to the pieces.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from polyrhythm.errors import WorkloadError
from polyrhythm.partition.piece import Piece
from polyrhythm.partition.random_numbers import Stream


def _uniform(stream: Stream, piece: Piece, low: float = 0.0, high: float = 1.0) -> Tensor:
    return low + (high - low) * stream.uniform(piece)


def _normal(stream: Stream, piece: Piece, mean: float = 0.0, deviation: float = 1.0) -> Tensor:
    return mean + deviation * stream.normal(piece)


def _bernoulli(stream: Stream, piece: Piece, chance: float = 0.5) -> Tensor:
    return (stream.uniform(piece) < chance).double()


_RANDOM: dict[str, Callable[..., Tensor]] = {"uniform_": _uniform, "normal_": _normal, "bernoulli_": _bernoulli}
_ELEMENTWISE = ("fill_", "zero_", "add_", "sub_", "mul_", "div_", "clamp_", "erfinv_", "exp_", "log_", "neg_", "sqrt_")
"""Methods that initialisations call with numbers, and that do the same to each element."""
_NOT_WRITES = ("requires_grad_", "detach_", "set_", "_set_grad_enabled")


@dataclass(frozen=True, slots=True)
class _Written:
    """One call of a method that writes to a view of a tensor's memory, with its numbers."""

    method: str
    numbers: tuple[Any, ...]
    size: torch.Size
    stride: tuple[int, ...]
    offset: int

    def to(self, value: Tensor, stream: Stream, piece: Piece) -> None:
        """Do it to `value`, which is `piece` of what the view shows."""
        if self.method in _RANDOM:
            value.copy_(_RANDOM[self.method](stream, piece, *self.numbers))
        else:
            getattr(value, self.method)(*self.numbers)


class Recording(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A context in which tensors on the device "meta" are made, and what is written to them is noted."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._written: dict[torch.UntypedStorage, list[_Written]] = {}
        self._device = torch.device("meta")

    def __enter__(self) -> Any:
        self._device.__enter__()
        return super().__enter__()  # type: ignore[no-untyped-call]

    def __exit__(self, *problem: Any) -> None:
        super().__exit__(*problem)  # type: ignore[no-untyped-call]
        self._device.__exit__(*problem)

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        name = func.overloadpacket.__name__
        if name.endswith("_") and name not in _NOT_WRITES and args and isinstance(args[0], Tensor) and args[0].is_meta:
            to = args[0]
            written = _Written(name, args[1:], to.shape, to.stride(), int(to.storage_offset()))
            self._written.setdefault(to.untyped_storage(), []).append(written)
        return func(*args, **(kwargs or {}))

    def initial(self, parameter: Tensor, name: str, seed: int, piece: Piece) -> Tensor:
        """The piece of `parameter`, made when this was the context, as its model initialises it.

        Raises WorkloadError for a method that cannot be done to pieces.
        """
        written = self._written.get(parameter.untyped_storage(), [])
        for each in written:
            if (each.method not in _RANDOM and each.method not in _ELEMENTWISE) or any(isinstance(x, Tensor) for x in each.numbers):
                raise WorkloadError(
                    f"{name} is initialised by {each.method}, which cannot be done to pieces: build the model itself at every worker, "
                    "not by worker.build, or initialise this weight by torch.nn.init.normal_ or uniform_."
                )
        streams = [Stream(seed, name, number) for number in range(len(written))]
        if all(each.offset == 0 and each.size == parameter.shape and each.stride == parameter.stride() for each in written):
            value = torch.empty(piece.shape, dtype=parameter.dtype)
            for each, stream in zip(written, streams, strict=True):
                each.to(value, stream, piece)
            return value
        memory = torch.empty(parameter.untyped_storage().nbytes() // parameter.element_size(), dtype=parameter.dtype)
        for each, stream in zip(written, streams, strict=True):
            each.to(memory.as_strided(each.size, each.stride, each.offset), stream, Piece.all_of(each.size))
        return piece.take(memory.as_strided(parameter.shape, parameter.stride(), parameter.storage_offset()))


def build(make: Callable[[], nn.Module]) -> tuple[nn.Module, Recording]:
    """The model without memory that `make` builds, and what is to be written to its weights."""
    with Recording() as recording:
        model = make()
    return model, recording
