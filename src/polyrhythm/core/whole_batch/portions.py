"""The data of a whole batch, cut into portions that are much smaller than a worker's share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor
from torch.utils.data import default_collate

from polyrhythm.core.settings import shown
from polyrhythm.errors import DataError, WorkloadError


class Portions:
    """`data`, a tuple of tensors or a dataset with a length, in order: `size` samples a portion, fewer in the last."""

    def __init__(self, data: Any, size: int) -> None:
        self.data = data
        self.size = size
        self.tensors: tuple[Tensor, ...] | None = None
        if isinstance(data, (tuple, list)) and data and all(isinstance(each, Tensor) for each in data):
            self.tensors = tuple(data)
        self.samples = self._length()
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise WorkloadError(
                f"worker.whole_batch was given portion={shown(size)}: give the samples of a portion, a whole number, 1 or more."
            )

    def _length(self) -> int:
        if self.tensors is not None:
            lengths = {len(each) for each in self.tensors}
            if len(lengths) > 1 or 0 in lengths:
                raise DataError(
                    f"worker.whole_batch was given tensors of {sorted(lengths)} samples: give as many in each, and at least one."
                )
            return lengths.pop()
        if not hasattr(type(self.data), "__len__") or not hasattr(type(self.data), "__getitem__") or not len(self.data):
            raise DataError(
                f"worker.whole_batch was given {shown(self.data)} as data: give a tuple of tensors, or a dataset with a length and samples "
                "by number, the same at every worker."
            )
        return len(self.data)

    def __len__(self) -> int:
        return -(-self.samples // self.size)

    def count(self, portion: int) -> int:
        """The samples of a portion."""
        return min(self.size, self.samples - portion * self.size)

    def batch(self, portion: int) -> Sequence[Any]:
        """The samples of a portion, as a loss takes them."""
        start = portion * self.size
        places = range(start, start + self.count(portion))
        if self.tensors is not None:
            return [each[places.start : places.stop] for each in self.tensors]
        found: Any = default_collate([self.data[k] for k in places])
        return found if isinstance(found, (tuple, list)) else (found,)
