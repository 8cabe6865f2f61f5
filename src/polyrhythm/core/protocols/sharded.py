"""Protocol of data that divide themselves among workers: each worker reads only its shard, and nobody reads everything.

Members are in `sources`; `worker.batches` takes them, and a shuffle makes batches of their shards.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from torch import Tensor

Rows = dict[str, Tensor | list[Any]] | list[Any]
"""Samples that were read at once: columns of equal length by name, or a list of samples."""


@dataclass(frozen=True, slots=True)
class ShardRequest:
    """A request for the samples of worker `rank` of `workers`, in epoch `epoch` (from 0) of a run seeded with `seed`.

    `skip` samples are left out at the start; more than 0 only where the number of samples is known.
    """

    rank: int
    workers: int
    seed: int = 0
    epoch: int = 0
    skip: int = 0


@runtime_checkable
class ShardedSource(Protocol):
    """Data of which every worker reads a shard; `worker.batches` takes any object that has these five members.

    In an epoch each sample is in one shard, at whatever number of workers.
    """

    @property
    def samples(self) -> int | None:
        """The number of samples of an epoch, N; None where it is known only at the end.

        Where it is known, the shard of rank r of P has N // P samples, and one more if r < N % P.
        """

    @property
    def repeats(self) -> bool:
        """True if the same request gives the same samples in the same order, so that a run can be resumed within an epoch."""

    @property
    def drop_last(self) -> bool:
        """True if samples that make no full batch for every worker are left out."""

    def shard(self, request: ShardRequest) -> Iterator[Rows]:
        """The samples of one shard, as many at once as can be read efficiently."""

    def batch(self, rows: Rows) -> Any:
        """`rows` as the training function gets them."""


class PendingSum(Protocol):
    """A sum that is under way."""

    def result(self) -> Tensor:
        """Wait for the sum, and return it."""


class BackgroundSums(Protocol):
    """Sums over all remaining workers, with the same bits at each. All workers begin the same ones in the same order."""

    def begin(self, value: Tensor) -> PendingSum:
        """Start the sum of `value`, which continues while the worker computes, where the runtime allows it."""
