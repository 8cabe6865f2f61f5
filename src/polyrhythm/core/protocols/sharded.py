"""What data are that divide themselves among workers: each worker reads a shard of its own, and nobody reads everything."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from torch import Tensor

Rows = dict[str, Tensor | list[Any]] | list[Any]
"""Samples that were read at once: columns of equal length by name, or a list of samples."""


@dataclass(frozen=True, slots=True)
class ShardRequest:
    """Which samples are wanted: those of worker `rank` of `workers`, in epoch `epoch` (from 0) of a run seeded with `seed`.

    `skip` samples are left out at the beginning; more than 0 only where the number of samples is known.
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
        """How many samples an epoch has, N; None where that is known at the end only.

        Where it is known, the shard of rank r of P has N // P samples, and one more if r < N % P.
        """

    @property
    def repeats(self) -> bool:
        """Whether the same request gives the same samples in the same order, so that a run can be resumed within an epoch."""

    @property
    def drop_last(self) -> bool:
        """Whether samples that make no full batch for every worker are left out."""

    def shard(self, request: ShardRequest) -> Iterator[Rows]:
        """The samples of one shard, as many at once as it takes to read them well."""

    def batch(self, rows: Rows) -> Any:
        """`rows` as the training function gets them."""


class PendingSum(Protocol):
    """A sum that is under way."""

    def result(self) -> Tensor:
        """The sum; waits for it."""


class BackgroundSums(Protocol):
    """Sums over all workers that are left, the same bits at each. All workers begin the same ones in the same order."""

    def begin(self, value: Tensor) -> PendingSum:
        """Begin the sum of `value`, which goes on while the worker computes, where the runtime has it so."""
