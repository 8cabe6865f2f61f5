"""A whole batch's weights, as an evaluation follows them: the servers keep copies of what each step has come to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from polyrhythm.core.protocols.snapshots import Snapshots
from polyrhythm.core.strategy.part import Part
from polyrhythm.core.training.followed import Everyone
from polyrhythm.core.whole_batch.batch_state import BatchState


@dataclass(slots=True)
class FollowedBatch:
    """The weights of a whole batch: the function gets its model."""

    state: BatchState
    servers: Sequence[str]
    scope: str

    @property
    def subject(self) -> nn.Module:
        return self.state.job.model

    @property
    def models(self) -> Sequence[nn.Module]:
        return [self.subject]

    def want(self, wanted: bool, actor: str, holders: Sequence[str]) -> None:
        """Nothing to do here: worker 0 asks the servers for copies."""

    def exchange(self, now: float) -> None:
        """Nothing to do here: the servers keep the copies."""

    def look(self, now: float) -> None:
        """Nothing to do here: the servers keep the copies."""

    def regroup(self, parts: Iterator[Part]) -> None:
        """Nothing to do here: the servers are the same."""

    def own(self) -> list[tuple[str, Snapshots]]:
        return []

    def expected(self, holders: Sequence[str]) -> set[tuple[str, str]]:
        return {(name, self.scope) for name in self.servers}

    def final(self) -> Tensor:
        """The weights (numel,)."""
        assert self.state.content is not None, "only worker 0 evaluates, and all workers have ended"
        return self.state.content

    def show(self, index: int, everyone: Everyone, final: Tensor) -> None:
        parts = final.tensor_split(len(self.servers))
        found = [everyone[name, self.scope].at(index) for name in self.servers]
        self.restore(torch.cat([part if kept is None else kept for part, kept in zip(parts, found, strict=True)]))

    def restore(self, final: Tensor) -> None:
        self.state.job.write(final)
