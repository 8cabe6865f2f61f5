"""Forward and backward passes of a group of calls, in the thread that computes them."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call, vmap

from polyrhythm.core.simulator.gradients.calls import CallKind, ModelCall, Outputs
from polyrhythm.core.simulator.gradients.values import shape_of
from polyrhythm.core.torch_private.gradient_sharing import is_transformed

_HERE = threading.local()
"""`inside` is true in a thread that computes a call; `copies` are its own models to stack weights in, because `functional_call` puts
weights into a model while it computes."""


def is_inside() -> bool:
    """True in the computation of a call."""
    return bool(getattr(_HERE, "inside", False))


@contextmanager
def _inside() -> Iterator[None]:
    _HERE.inside = True
    try:
        with torch.enable_grad():
            yield
    finally:
        _HERE.inside = False


def forward(calls: Sequence[ModelCall]) -> Outputs:
    """The forward passes of `calls`, by `vmap` where there are several. Raises what the model raises."""
    first = calls[0]
    with _inside():
        if len(calls) == 1:
            leaves, shape = shape_of(first.forward(first.seat.model, *first.args, **first.kwargs))
            return Outputs(leaves, first.seat.trained, shape, stacked=False)
        return _stacked(calls)


def _stacked(calls: Sequence[ModelCall]) -> Outputs:
    first = calls[0]
    model = _copy(first.kind, first.seat.model)
    names = {id(parameter): name for name, parameter in first.seat.model.named_parameters()}
    stacks = {
        names[id(parameter)]: torch.stack([call.seat.trained[k].detach() for call in calls]).requires_grad_()
        for k, parameter in enumerate(first.seat.trained)
    }
    others = [{**dict(call.seat.model.named_parameters()), **dict(call.seat.model.named_buffers())} for call in calls]
    rest = {name: torch.stack([each[name].detach() for each in others]) for name in others[0] if name not in stacks}
    places = [k for k, arg in enumerate(first.args) if isinstance(arg, Tensor)]
    named = [name for name, arg in first.kwargs.items() if isinstance(arg, Tensor)]
    tensors = [torch.stack([call.args[k] for call in calls]) for k in places]
    keywords = {name: torch.stack([call.kwargs[name] for call in calls]) for name in named}
    shapes: list[Any] = []

    def one(state: Mapping[str, Tensor], tensors: Sequence[Tensor], keywords: Mapping[str, Tensor]) -> tuple[Tensor, ...]:
        args = list(first.args)
        for k, tensor in zip(places, tensors, strict=True):
            args[k] = tensor
        leaves, shape = shape_of(functional_call(model, dict(state), tuple(args), {**first.kwargs, **keywords}))
        shapes.append(shape)
        return tuple(leaves)

    with attention_in_batches():
        leaves = vmap(one, randomness="error")({**stacks, **rest}, tensors, keywords)
    return Outputs(leaves, list(stacks.values()), shapes[0], stacked=True)


def _copy(kind: CallKind, model: nn.Module) -> nn.Module:
    """This thread's own copy of a model of that kind."""
    copies: dict[CallKind, nn.Module] = _HERE.__dict__.setdefault("copies", {})
    if kind not in copies:
        copies[kind] = deepcopy(model)
    return copies[kind]


def forget() -> None:
    """Drop this thread's copies."""
    _HERE.__dict__.pop("copies", None)


def backward(outputs: Outputs, calls: Sequence[ModelCall]) -> list[Sequence[Tensor | None]]:
    """The gradients of the trained parameters, for each call; None for a parameter that has none.

    A call whose program has made no backward pass counts with zeros.
    """
    place = [k for k, leaf in enumerate(outputs.leaves) if leaf.requires_grad]
    given: list[Tensor] = []
    for j, k in enumerate(place):
        zero = torch.zeros_like(outputs.of(0)[k])
        own = [zero if call.gradients is None else call.gradients[j] for call in calls]
        given.append(torch.stack(own) if outputs.stacked else own[0])
    with _inside():
        found = torch.autograd.grad([outputs.leaves[k] for k in place], list(outputs.trained), given, allow_unused=True)
    if not outputs.stacked:
        return [found]
    return [[None if each is None else each[k] for each in found] for k in range(len(calls))]


_ATTENTION = F.scaled_dot_product_attention
_PATCHING = threading.Lock()


class BatchedAttention(torch.autograd.Function):
    """Attention of stacked workers as that of a larger batch: it has no weights, and `vmap` has no rule for it on the CPU but a loop."""

    @staticmethod
    def forward(query: Tensor, key: Tensor, value: Tensor, causal: bool) -> Tensor:
        return _ATTENTION(query, key, value, is_causal=causal)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        """Nothing is kept: below `vmap` autograd follows the operation itself."""

    @staticmethod
    def vmap(info: Any, dims: tuple[int | None, ...], query: Tensor, key: Tensor, value: Tensor, causal: bool) -> tuple[Tensor, int]:
        size = info.batch_size
        q, k, v = (
            (each.expand(size, *each.shape) if dim is None else each.movedim(dim, 0)).flatten(0, 1)
            for each, dim in zip((query, key, value), dims, strict=False)
        )
        out = _ATTENTION(q, k, v, is_causal=causal)
        return out.view(size, -1, *out.shape[1:]), 0


def _attention(query: Tensor, key: Tensor, value: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    plain = not args and set(kwargs) <= {"is_causal"} and min(query.dim(), key.dim(), value.dim()) > 2
    if plain and is_inside() and is_transformed(query):
        found: Tensor = BatchedAttention.apply(query, key, value, kwargs.get("is_causal", False))  # type: ignore[no-untyped-call]
        return found
    return _ATTENTION(query, key, value, *args, **kwargs)


_USERS = [0]


@contextmanager
def attention_in_batches() -> Iterator[None]:
    """Attention that is looked up as `F.scaled_dot_product_attention` is that of a larger batch below `vmap`."""
    with _PATCHING:
        _USERS[0] += 1
        F.scaled_dot_product_attention = _attention
    try:
        yield
    finally:
        with _PATCHING:
            _USERS[0] -= 1
            if not _USERS[0]:
                F.scaled_dot_product_attention = _ATTENTION
