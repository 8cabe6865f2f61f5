"""Models that are built without memory for their weights, of which each rank then makes its pieces.

`worker.build(Net)` calls `Net()` so. What the model does to make its weights in `__init__` is noted: what treats each element by itself,
such as the usual functions of `torch.nn.init`, is done to the pieces; the rest is done to the whole tensor, of which the piece is kept.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

from polyrhythm.partition.piece import Piece
from polyrhythm.partition.random_numbers import Stream


def _uniform(stream: Stream, piece: Piece, low: float = 0.0, high: float = 1.0) -> Tensor:
    return low + (high - low) * stream.uniform(piece)


def _normal(stream: Stream, piece: Piece, mean: float = 0.0, deviation: float = 1.0) -> Tensor:
    return mean + deviation * stream.normal(piece)


def _bernoulli(stream: Stream, piece: Piece, chance: float = 0.5) -> Tensor:
    return (stream.uniform(piece) < chance).double()


def _truncated(stream: Stream, piece: Piece, mean: float = 0.0, deviation: float = 1.0, low: float = -2.0, high: float = 2.0) -> Tensor:
    bottom, top = (0.5 * (1 + math.erf((bound - mean) / deviation / math.sqrt(2))) for bound in (low, high))
    within = bottom + (top - bottom) * stream.uniform(piece)
    return (mean + deviation * math.sqrt(2) * torch.erfinv(2 * within - 1)).clamp(low, high)


_TRUNCATED = "_no_grad_trunc_normal_"
_RANDOM: dict[str, Callable[..., Tensor]] = {
    "uniform_": _uniform,
    "normal_": _normal,
    "bernoulli_": _bernoulli,
    "trunc_normal_": _truncated,
}
_ELEMENTWISE = ("fill_", "zero_", "add_", "sub_", "mul_", "div_", "clamp_", "erfinv_", "exp_", "log_", "neg_", "sqrt_")
"""Methods that initialisations call with numbers, and that do the same to each element."""
_MADE: dict[str, tuple[str, tuple[Any, ...]]] = {
    "zeros": ("zero_", ()), "zeros_like": ("zero_", ()), "new_zeros": ("zero_", ()),
    "ones": ("fill_", (1,)), "ones_like": ("fill_", (1,)), "new_ones": ("fill_", (1,)),
    "rand": ("uniform_", ()), "rand_like": ("uniform_", ()), "randn": ("normal_", ()), "randn_like": ("normal_", ()),
}  # fmt: skip
"""Functions that make a tensor, and the method with its numbers that writes the same to an empty one."""
_EMPTY = ("empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided")
_IS_META: Any = torch.Tensor.is_meta.__get__  # type: ignore[attr-defined]
_NOT_WRITES = ("requires_grad_", "detach_", "set_")


@dataclass(frozen=True, slots=True)
class _View:
    """A view of a tensor's memory, as it was after so many deeds."""

    storage: torch.UntypedStorage
    deeds: int
    size: torch.Size
    stride: tuple[int, ...]
    offset: int
    dtype: torch.dtype

    def memory(self) -> Tensor:
        """As much memory as it needs."""
        last = sum((size - 1) * stride for size, stride in zip(self.size, self.stride, strict=True))
        return torch.empty(self.offset + 1 + last if self.size.numel() else 0, dtype=self.dtype)

    def of(self, memory: Tensor) -> Tensor:
        """The view of that memory."""
        return memory.as_strided(self.size, self.stride, self.offset)

    def shows_all(self, tensor: Tensor) -> bool:
        """True if it shows all of `tensor`."""
        return (self.size, self.stride, self.offset) == (tensor.shape, tensor.stride(), tensor.storage_offset())


@dataclass(frozen=True, slots=True)
class _Deed:
    """A method that writes to `to`, or a function of torch that returns it as its `place`-th result; its arguments may be views."""

    name: str
    function: Any
    to: _View
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    place: int | None = None

    @property
    def elementwise(self) -> bool:
        """True if it does the same to each element, or draws a number for it."""
        known = self.name in _RANDOM or self.name in _ELEMENTWISE
        return known and not any(isinstance(each, _View) for each in (*self.args, *self.kwargs.values()))

    @property
    def makes(self) -> bool:
        """True if its function makes the tensor that it writes to."""
        return self.function is not None and not self.name.endswith("_") and not isinstance(self.function, partial)

    def on_piece(self, value: Tensor, stream: Stream, piece: Piece) -> None:
        """Do it to `value`, which is `piece` of what it writes to."""
        if self.name in _RANDOM:
            value.copy_(_RANDOM[self.name](stream, piece, *self.args))
        else:
            getattr(value, self.name)(*self.args)


class Recording(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A context in which tensors on the device "meta" are made, and what is done to make them is noted."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._deeds: dict[torch.UntypedStorage, list[_Deed]] = {}
        self._device = torch.device("meta")
        self._insisting = _Insisting(self._note)

    def __enter__(self) -> Any:
        self._device.__enter__()
        self._insisting.__enter__()  # type: ignore[no-untyped-call]
        return super().__enter__()  # type: ignore[no-untyped-call]

    def __exit__(self, *problem: Any) -> None:
        super().__exit__(*problem)  # type: ignore[no-untyped-call]
        self._insisting.__exit__(*problem)  # type: ignore[no-untyped-call]
        self._device.__exit__(*problem)

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        name, given = func.overloadpacket.__name__, dict(kwargs or {})
        seen_args, seen = tree_map(self._seen, args), tree_map(self._seen, {k: v for k, v in given.items() if k != "device"})
        found = func(*args, **given)
        if isinstance(out := given.get("out"), Tensor) and out.is_meta:
            seen.pop("out")
            self._note(out, name, partial(_into, func), seen_args, seen)
            return found
        if name.endswith("_"):
            if name not in _NOT_WRITES and isinstance(args[0], Tensor) and args[0].is_meta:
                self._note(args[0], name, func, seen_args[1:], seen)
            return found
        for place, each in enumerate(found if isinstance(found, tuple | list) else (found,)):
            if isinstance(each, Tensor) and each.is_meta and each.untyped_storage() not in self._deeds:
                self._deeds[each.untyped_storage()] = []
                self._made(each, name, func, seen_args, seen, place if isinstance(found, tuple | list) else None)
        return found

    def knows(self, tensor: Tensor) -> bool:
        """True if the tensor was made when this was the context."""
        return tensor.untyped_storage() in self._deeds

    def initial(self, tensor: Tensor, name: str, seed: int, piece: Piece) -> Tensor:
        """The piece of a parameter or buffer, made when this was the context, as its model initialises it."""
        deeds = self._deeds.get(tensor.untyped_storage(), [])
        if all(each.elementwise and each.to.shows_all(tensor) for each in deeds):
            value = torch.empty(piece.shape, dtype=tensor.dtype)
            for number, each in enumerate(deeds):
                each.on_piece(value, Stream(seed, name, number), piece)
            return value
        return piece.take(self._whole(self._seen(tensor), name, seed))

    def _made(self, tensor: Tensor, name: str, function: Any, args: Any, kwargs: Any, place: int | None) -> None:
        """A tensor was made: by a function that only fills it, or one that has to be called."""
        if name in _MADE:
            method, numbers = _MADE[name]
            self._note(tensor, method, None, numbers, {})
        elif name in ("full", "full_like", "new_full"):
            self._note(tensor, "fill_", None, (kwargs["fill_value"] if "fill_value" in kwargs else args[1],), {})
        elif name not in _EMPTY:
            self._note(tensor, name, function, args, kwargs, place)

    def _note(self, to: Tensor, name: str, function: Any, args: Any, kwargs: Any, place: int | None = None) -> None:
        self._deeds.setdefault(to.untyped_storage(), []).append(_Deed(name, function, self._seen(to), tuple(args), kwargs, place))

    def _seen(self, value: Any) -> Any:
        """A tensor without memory as a view of what has been done so far; anything else as it is."""
        if not isinstance(value, Tensor) or not value.is_meta:
            return value
        storage = value.untyped_storage()
        return _View(storage, len(self._deeds.get(storage, [])), value.shape, value.stride(), int(value.storage_offset()), value.dtype)

    def _whole(self, view: _View, name: str, seed: int) -> Tensor:
        """The values that the view shows."""
        deeds = self._deeds.get(view.storage, [])[: view.deeds]
        first = deeds[0] if deeds and deeds[0].makes else None
        memory = self._computed(first, seed) if first else None
        for number, each in enumerate(deeds):
            memory = each.to.memory() if memory is None else memory
            to = each.to.of(memory)
            if each.elementwise:
                each.on_piece(to, Stream(seed, name, number), Piece.all_of(to.shape))
            elif each is not first:
                args, kwargs = self._values(each, seed)
                with _seeded(Stream(seed, name, number)):
                    each.function(to, *args, **kwargs)
        return view.of(view.memory() if memory is None else memory)

    def _computed(self, deed: _Deed, seed: int) -> Tensor:
        args, kwargs = self._values(deed, seed)
        with _seeded(Stream(seed, f"tensor {self._number(deed.to)}")):
            found = deed.function(*args, **kwargs)
        result: Tensor = found if deed.place is None else found[deed.place]
        memory = deed.to.memory()
        deed.to.of(memory).copy_(result)
        return memory

    def _values(self, deed: _Deed, seed: int) -> tuple[Any, Any]:
        def value(each: Any) -> Any:
            return self._whole(each, f"tensor {self._number(each)}", seed) if isinstance(each, _View) else each

        return tree_map(value, deed.args), tree_map(value, deed.kwargs)

    def _number(self, view: _View) -> int:
        """The place of a tensor among all that were made: what is drawn for it is its own."""
        return list(self._deeds).index(view.storage)


def _into(function: Any, out: Tensor, *args: Any, **kwargs: Any) -> None:
    """Call a function that writes its result to `out`."""
    function(*args, out=out, **kwargs)


class _Insisting(TorchFunctionMode):
    """Has the functions of `torch.nn.init` do what they would leave out for a tensor without memory, such as `orthogonal_`.

    `trunc_normal_` draws again until all numbers are within its bounds, for which it needs them: it is noted as one deed.
    """

    def __init__(self, note: Callable[..., None]) -> None:
        super().__init__()
        self._noted = note

    def __torch_function__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        if func == _IS_META and (caller := sys._getframe(1)).f_code.co_filename == nn.init.__file__:
            if caller.f_code.co_name != _TRUNCATED:
                return False
            given = caller.f_locals
            self._noted(args[0], "trunc_normal_", None, tuple(given[name] for name in ("mean", "std", "a", "b")), {})
        return func(*args, **(kwargs or {}))


@contextmanager
def _seeded(stream: Stream) -> Iterator[None]:
    """For functions that draw inside."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(stream.number)
        yield


def build(make: Callable[[], nn.Module]) -> tuple[nn.Module, Recording]:
    """The model without memory that `make` builds, and what is to be done to make its weights."""
    with Recording() as recording:
        model = make()
    return model, recording
