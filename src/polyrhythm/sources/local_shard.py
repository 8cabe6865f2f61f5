"""Samples that are this worker's own already: a partition that an engine has brought to its process, a pipeline that divides itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from torch import Tensor

from polyrhythm.core.columns.columns import ArrowArray, ArrowStream, collated, columns_of
from polyrhythm.core.protocols.sharded import Rows, ShardRequest
from polyrhythm.core.settings import checked
from polyrhythm.errors import DataError
from polyrhythm.sources.kept_rows import KeptRows

_AT_ONCE = 1024


@runtime_checkable
class NamedRow(Protocol):
    """A row of a Spark DataFrame's RDD."""

    def asDict(self) -> dict[str, Any]:  # noqa: N802
        """Its values by column."""


@dataclass(frozen=True)
@checked
class LocalShard:
    """An iterable whose samples no other worker has; workers need not have equally many, and none may be empty for all.

    Its elements are samples (tuples, dicts, rows), or batches of columns: record batches, data frames, dicts of arrays. An iterator can be
    read once: with `keep` its samples are written to an Arrow file in that directory of this host as they are read, from which the next
    epochs come; the file ends with the object. `repeats`: whether it would give the same samples in the same order in a run that is
    resumed.
    """

    data: Iterable[Any]
    keep: str | Path | None = None
    repeats: bool = False
    drop_last: bool = False
    samples: ClassVar[None] = None
    _kept: list[KeptRows] = field(default_factory=list, init=False, repr=False, compare=False)

    def shard(self, request: ShardRequest) -> Iterator[Rows]:
        """The rows of the iterable; the request is not used, since the samples were divided before."""
        if self._kept:
            return self._again()
        return _rows(self.data) if self.keep is None else self._first(Path(self.keep))

    def batch(self, rows: Rows) -> Any:
        """Columns by name, or samples stacked."""
        return collated(rows)

    def _first(self, directory: Path) -> Iterator[Rows]:
        """One pass, also written to the file; if it is left early, the next one begins with the samples that were read and continues."""
        kept = KeptRows(directory, _rows(self.data))
        self._kept.append(kept)
        yield from kept.rest()

    def _again(self) -> Iterator[Rows]:
        [kept] = self._kept
        yield from kept.read()
        yield from kept.rest()


def _rows(data: Iterable[Any]) -> Iterator[Rows]:
    elements = iter(data)
    while True:
        first = next(elements, None)
        if first is None:
            return
        if _is_columns(first):
            yield columns_of(first)
            continue
        samples = [_sample(each) for each in (first, *islice(elements, _AT_ONCE - 1))]
        yield columns_of({name: [sample[name] for sample in samples] for name in samples[0]}) if isinstance(samples[0], dict) else samples


def _is_columns(element: Any) -> bool:
    if isinstance(element, (ArrowArray, ArrowStream)):
        return True
    arrays = (np.ndarray, Tensor)
    return isinstance(element, Mapping) and bool(element) and all(isinstance(each, arrays) and each.ndim for each in element.values())


def _sample(element: Any) -> Any:
    if _is_columns(element):
        raise DataError("A batch of columns follows a sample: give an iterable of one kind, batches of columns or samples.")
    return element.asDict() if isinstance(element, NamedRow) else element
