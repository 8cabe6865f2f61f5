"""Checks of a collective's tensors, which raise before any rank waits for another."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from polyrhythm.core.torch_private.one_process import wraps_tensors
from polyrhythm.errors import CompositionError
from polyrhythm.process_group.operations import Reduction


def sparse(tensors: Iterable[Tensor]) -> bool:
    """True if any tensor on the CPU is not strided, such as a sparse one."""
    return any(tensor.layout != torch.strided and tensor.device.type == "cpu" for tensor in tensors)


def unwrapped(tensors: Iterable[Tensor]) -> list[Tensor]:
    """`tensors`, and instead of a wrapper, which has no numbers itself, the tensors in it: what is done in place is done to these."""
    found: list[Tensor] = []
    for tensor in tensors:
        if type(tensor) is not Tensor and wraps_tensors(type(tensor)):
            found += unwrapped(getattr(tensor, name) for name in tensor.__tensor_flatten__()[0])  # type: ignore[attr-defined]
        else:
            found.append(tensor)
    return found


def dense(*tensors: Tensor) -> None:
    """Raises CompositionError for a tensor that is sparse or not on the CPU: shared memory takes dense CPU tensors only."""
    for tensor in tensors:
        if type(tensor) is not Tensor and wraps_tensors(type(tensor)):
            raise CompositionError(
                f"A {type(tensor).__name__} was given to a collective of polyrhythm: give the tensors in it; only all_reduce, broadcast, "
                "and the all-gather and reduce-scatter of one tensor take it whole."
            )
        if tensor.layout != torch.strided or tensor.device.type != "cpu":
            raise CompositionError(
                f"A tensor of layout {tensor.layout} on device {tensor.device} was given to a collective of polyrhythm: give dense tensors "
                "on the CPU; only all_reduce takes sparse ones too."
            )


def summable_sparse(tensors: Iterable[Tensor], how: Reduction) -> None:
    """Raises CompositionError unless all are of torch.sparse_coo, and are to be summed."""
    for tensor in tensors:
        if tensor.layout != torch.sparse_coo or tensor.device.type != "cpu" or str(how) != "SUM":
            raise CompositionError(
                f"all_reduce {how} was given a tensor of layout {tensor.layout} on device {tensor.device}: of sparse ones, polyrhythm sums "
                "those of torch.sparse_coo on the CPU."
            )


def reducible(tensors: Sequence[Tensor], how: Reduction) -> None:
    """Raises CompositionError for numbers that cannot be reduced so."""
    for tensor in tensors:
        how.check(tensor)


def parts(whole: Tensor, part: Tensor, ranks: int) -> None:
    """Raises CompositionError where `whole` is not `ranks` times `part`, of one type."""
    if whole.dtype != part.dtype:
        raise CompositionError(f"Tensors of {whole.dtype} and {part.dtype} were given to one collective: give both the same type.")
    if whole.numel() != ranks * part.numel():
        raise CompositionError(
            f"A tensor of {whole.numel()} elements was given for {ranks} parts of {part.numel()} elements, one for each rank: it must have "
            f"{ranks * part.numel()}."
        )


def one_for_each(tensors: Sequence[Tensor], like: Tensor, ranks: int) -> None:
    """Raises CompositionError where there is not one tensor for each rank, all of the type of `like`."""
    if len(tensors) != ranks:
        raise CompositionError(f"A list of {len(tensors)} tensors was given to a group of {ranks} ranks: give one for each.")
    for tensor in tensors:
        if tensor.dtype != like.dtype:
            raise CompositionError(f"Tensors of {tensor.dtype} and {like.dtype} were given to one collective: give all the same type.")


def equal(tensors: Sequence[Tensor], like: Tensor) -> None:
    """Raises CompositionError where one has not as many elements as `like`."""
    for tensor in tensors:
        if tensor.numel() != like.numel():
            raise CompositionError(
                f"Tensors of {tensor.numel()} and {like.numel()} elements were given to one gather or scatter: give all the same size."
            )


def root(rank: int, ranks: int) -> None:
    """Raises CompositionError for a root that is not a member."""
    if not 0 <= rank < ranks:
        raise CompositionError(f"Root rank {rank} was given to a group of {ranks} ranks: it must be between 0 and {ranks - 1}.")


def divisible(tensor: Tensor, ranks: int) -> None:
    """Raises CompositionError where the first dimension cannot be cut into equal parts."""
    rows = tensor.shape[0] if tensor.dim() else 1
    if rows % ranks:
        raise CompositionError(f"A tensor of {rows} rows cannot be cut into {ranks} equal parts: give split sizes.")


def rows(tensor: Tensor, splits: Sequence[int], ranks: int) -> Sequence[Tensor]:
    """The parts of `tensor` of the sizes `splits`, or equal ones. Raises CompositionError if these do not cover it."""
    if not splits:
        divisible(tensor, ranks)
        return torch.tensor_split(tensor, ranks) if tensor.dim() else (tensor,)
    if len(splits) != ranks or sum(splits) != tensor.shape[0]:
        raise CompositionError(
            f"Split sizes {list(splits)} were given for a tensor of {tensor.shape[0]} rows and {ranks} ranks: give one for each rank, "
            "which together are all rows."
        )
    return torch.split(tensor, list(splits))
