"""The memory of a worker: the bytes that it holds between steps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from polyrhythm.core.torch_private.one_process import sparse_indices, sparse_values
from polyrhythm.core.training.worker import Worker


def held(worker: Worker) -> int:
    """Bytes of a worker's weights, gradients and buffers, of its optimizer, and of what the system keeps there.

    Raises PolyrhythmErrors where the system's state cannot be read at this moment.
    """
    found: dict[int, int] = {}
    for replica in worker.attached:
        own = [part for each in replica.model.parameters() for part in (each.data, each.grad) if part is not None]
        for value in (*own, *replica.model.buffers(), *_tensors(replica.export())):
            for stored in _stored(value):
                found[stored.untyped_storage().data_ptr()] = stored.untyped_storage().nbytes()
    return sum(found.values())


def _stored(value: Tensor) -> tuple[Tensor, ...]:
    """The tensors that store it: of a sparse gradient its rows and their places."""
    return (value,) if value.layout == torch.strided else (sparse_indices(value), sparse_values(value))


def _tensors(tree: Any) -> Iterator[Tensor]:
    if isinstance(tree, Tensor):
        yield tree
    elif isinstance(tree, dict):
        for each in tree.values():
            yield from _tensors(each)
    elif isinstance(tree, (list, tuple)):
        for each in tree:
            yield from _tensors(each)
