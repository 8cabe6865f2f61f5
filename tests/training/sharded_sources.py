"""Sources that divide themselves, as tests need them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from polyrhythm.core.protocols.sharded import Rows, ShardRequest


@dataclass(frozen=True)
class Uneven:
    """Shards of the given lengths, whose numbers are in the order of shards; their number is not declared."""

    lengths: Sequence[int]
    at_once: int = 7
    drop_last: bool = False
    repeats: bool = True
    samples: None = None

    def shard(self, request: ShardRequest) -> Iterator[Rows]:
        """`at_once` at a time."""
        start = sum(self.lengths[: request.rank])
        numbers = torch.arange(start, start + self.lengths[request.rank])
        for part in numbers.split(self.at_once) if len(numbers) else ():
            yield {"number": part}

    def batch(self, rows: Rows) -> Any:
        """The numbers."""
        assert isinstance(rows, dict)
        return rows["number"]


@dataclass(frozen=True)
class Numbers:
    """The numbers below `samples`, in order: a rank has a contiguous part."""

    samples: int
    drop_last: bool = False
    repeats: bool = True

    def shard(self, request: ShardRequest) -> Iterator[Rows]:
        """One at a time."""
        share, rest = divmod(self.samples, request.workers)
        start = request.rank * share + min(request.rank, rest)
        yield from ([number] for number in range(start + request.skip, start + share + (request.rank < rest)))

    def batch(self, rows: Rows) -> Any:
        """A tensor."""
        return torch.tensor(rows)
