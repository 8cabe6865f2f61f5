"""Parameters that share memory with another tensor: `attach` moves parameters to new memory, which would untie them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import cast

import torch
from torch import Tensor, nn
from torch.utils.weak import WeakTensorKeyDictionary

from polyrhythm.core.torch_private.one_process import address_of_storage, holders_of_storage
from polyrhythm.errors import CompositionError

_LAID = WeakTensorKeyDictionary()
"""The vectors in which attached parameters lie. They hold this memory too, and are not counted when a model is attached again."""


_COMMON = WeakTensorKeyDictionary()
"""Vectors in which the parameters of many models lie, because all have the same values for ever: a replay of nothing but zeros."""


def share_among_models(flat: Tensor) -> None:
    """Let models whose parameters lie end to end in `flat` (numel,) be attached without a copy: nobody will write other values there."""
    _COMMON[flat] = None
    laid(flat)


def common_vector(parameters: Sequence[Tensor]) -> Tensor | None:
    """The vector of `share_among_models` in which these lie end to end, all of it; else None."""
    for flat in _COMMON:
        address = flat.data_ptr()
        for parameter in parameters:
            if parameter.data_ptr() != address or parameter.dtype != flat.dtype or not parameter.is_contiguous():
                break
            address += parameter.nbytes
        else:
            if address == flat.data_ptr() + flat.nbytes:
                return cast(Tensor, flat)
    return None


def laid(flat: Tensor) -> None:
    """Note that `attach` has put parameters into `flat` (numel,)."""
    _LAID[flat] = None


def refuse_same_memory(model: nn.Module, trained: Collection[int]) -> None:
    """Raise CompositionError where a parameter of `trained` (by id) has memory in common with another tensor of the model or of the user's.

    One parameter that several modules own is one parameter: it stays tied.
    """
    by_storage: dict[int, list[tuple[str, Tensor]]] = {}
    for name, tensor in _distinct(model):
        if tensor.numel() and tensor.layout == torch.strided:
            by_storage.setdefault(address_of_storage(tensor), []).append((name, tensor))
    for aliases in by_storage.values():
        if any(id(tensor) in trained for _, tensor in aliases):
            _refuse_overlap(aliases, trained)
            _refuse_holder(aliases)


def seen_elsewhere(model: nn.Module) -> list[str]:
    """The trained parameters whose whole memory another tensor outside the model has too, which would not follow the parameter."""
    return [
        name
        for name, parameter in model.named_parameters()
        if parameter.requires_grad and parameter.numel() and parameter.layout == torch.strided and _is_seen(parameter)
    ]


def _is_seen(parameter: Tensor) -> bool:
    alone = parameter.nbytes == parameter.untyped_storage().nbytes()
    return alone and holders_of_storage(parameter) > 1 and not _is_laid(parameter)


def _is_laid(tensor: Tensor) -> bool:
    return address_of_storage(tensor) in {address_of_storage(flat) for flat in _LAID}


def _distinct(model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    yield from model.named_parameters()
    yield from model.named_buffers()


def _refuse_overlap(aliases: list[tuple[str, Tensor]], trained: Collection[int]) -> None:
    if len(aliases) == 1:
        return
    for k, (name, tensor) in enumerate(aliases):
        for other, before in aliases[:k]:
            if (id(tensor) in trained or id(before) in trained) and _overlap(tensor, before):
                raise CompositionError(
                    f"{other} and {name} are two tensors in the same memory, and worker.attach would untie them: let both modules own one "
                    f"parameter (`a.weight = b.weight`, not `a.weight.data = b.weight.data`), or give each its own copy (`.clone()`)."
                )


def _overlap(one: Tensor, other: Tensor) -> bool:
    if one.dtype != other.dtype or (one.is_contiguous() and other.is_contiguous()):
        return bool(one.data_ptr() < other.data_ptr() + other.nbytes and other.data_ptr() < one.data_ptr() + one.nbytes)
    taken = torch.zeros(one.untyped_storage().nbytes() // one.element_size(), dtype=torch.bool)
    taken.as_strided(one.shape, one.stride(), one.storage_offset()).fill_(True)
    return bool(taken.as_strided(other.shape, other.stride(), other.storage_offset()).any())


def _refuse_holder(aliases: list[tuple[str, Tensor]]) -> None:
    """Refuse a parameter that is part of a larger tensor in use. If nobody holds that any more it is harmless: some layers are made so."""
    name, first = aliases[0]
    part = len(aliases) > 1 or first.nbytes < first.untyped_storage().nbytes()
    if part and holders_of_storage(first) > len(aliases) and not _is_laid(first):
        raise CompositionError(
            f"{name} is a part of a larger tensor that is still in use, and worker.attach would give it separate memory, so that the two "
            "would have nothing to do with each other any more: give the parameter a copy (`.clone()`), or write to the parameter itself."
        )
