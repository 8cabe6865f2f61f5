"""Parts of models, and tables, that an evaluation follows: copies of them are kept at the moments of a time grid."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from polyrhythm.core.protocols.division import Divided
from polyrhythm.core.protocols.snapshots import Snapshots
from polyrhythm.core.strategy.part import Part
from polyrhythm.core.tables.table_state import TableState

Everyone = Mapping[tuple[str, str], Snapshots]
"""The copies that were kept, by actor and scope."""


class Followed(Protocol):
    """A part of a model, or a table, that is followed at one worker."""

    @property
    def subject(self) -> object:
        """The object that the user's function gets; parts of one model have the same."""

    @property
    def models(self) -> Sequence[nn.Module]:
        """The models that it is part of."""

    def want(self, wanted: bool, actor: str, holders: Sequence[str]) -> None:
        """Keep copies from now on at `actor`, if `wanted` and it has any; buffers are kept at their `holders`."""

    def exchange(self, now: float) -> None:
        """Keep copies that are due, since an exchange starts."""

    def look(self, now: float) -> None:
        """Keep copies that are due, since a step has ended, or copies are wanted from now on."""

    def regroup(self, parts: Iterator[Part]) -> None:
        """Follow the next of `parts`, in which the model is among other workers, and keep the copies."""

    def own(self) -> list[tuple[str, Snapshots]]:
        """The copies that this worker keeps, by scope."""

    def expected(self, holders: Sequence[str]) -> set[tuple[str, str]]:
        """The actors and scopes of all copies that are kept, at any actor."""

    def final(self) -> Any:
        """The final state, to be given to `show` and `restore`."""

    def show(self, index: int, everyone: Everyone, final: Any) -> None:
        """Set the subject to its state at the moment `index`; a missing copy has not changed since, and is taken from `final`."""

    def restore(self, final: Any) -> None:
        """Set the subject to its final state."""


@dataclass(slots=True)
class FollowedPart:
    """A part of a replica, and its model; `buffers` are the model's floating-point ones, at the first part of it.

    `snapshots` has the buffers of the step that was under way at a moment, after its forward pass. A copy is taken when a moment has
    passed; the buffers from before that forward pass are gone by then, and keeping them would take a copy at every step.
    """

    part: Part
    subject: nn.Module
    buffers: list[Tensor]
    snapshots: Snapshots

    @property
    def models(self) -> Sequence[nn.Module]:
        return [self.subject]

    def want(self, wanted: bool, actor: str, holders: Sequence[str]) -> None:
        self.part.local.snapshots.wanted = wanted and actor in self.part.planned.plan.result_actors()
        self.snapshots.wanted = wanted and bool(self.buffers) and actor in holders

    def exchange(self, now: float) -> None:
        self.part.look()
        self.look(now)

    def look(self, now: float) -> None:
        """Keep the buffers, if a moment of the grid has passed since they were looked at."""
        if self.snapshots.due(now):
            self.snapshots.look(now, _flat(self.buffers))

    def regroup(self, parts: Iterator[Part]) -> None:
        kept, self.part = self.part.local.snapshots, next(parts)
        self.part.local.snapshots = kept

    def own(self) -> list[tuple[str, Snapshots]]:
        kept = [(self.part.scope, self.part.local.snapshots), (self._buffers, self.snapshots)]
        return [(scope, snapshots) for scope, snapshots in kept if snapshots.wanted]

    def expected(self, holders: Sequence[str]) -> set[tuple[str, str]]:
        weights = {(name, self.part.scope) for name in self.part.planned.plan.result_actors()}
        return weights | {(name, self._buffers) for name in holders if self.buffers}

    def final(self) -> tuple[Tensor, list[Tensor]]:
        """The weights and the buffers."""
        return self.part.local.parameters.flat.clone(), [buffer.clone() for buffer in self.buffers]

    def show(self, index: int, everyone: Everyone, final: tuple[Tensor, list[Tensor]]) -> None:
        weights, buffers = final
        self.restore((self._at(index, everyone, weights), self._buffers_at(index, everyone, buffers)))

    def restore(self, final: tuple[Tensor, list[Tensor]]) -> None:
        weights, buffers = final
        with torch.no_grad():
            self.part.local.parameters.flat.copy_(weights)
            for buffer, value in zip(self.buffers, buffers, strict=True):
                buffer.copy_(value)

    @property
    def _buffers(self) -> str:
        return f"{self.part.scope}buffers"

    def _at(self, index: int, everyone: Everyone, final: Tensor) -> Tensor:
        """The result at a moment; for an actor whose weights have not changed since, with its part of the final weights."""
        plan, layout = self.part.planned.plan, self.part.local.parameters.layout
        actors = plan.result_actors()
        layouts = plan.held_by(layout)
        whole = all(held.numel == layout.numel for held in layouts)
        divided = None if whole else Divided.of(layout, layouts)
        parts = [final] * len(actors) if divided is None else divided.cut(final)
        present = [(name, part) for name, part in zip(actors, parts, strict=True) if (name, self.part.scope) in everyone]
        found = [everyone[name, self.part.scope].at(index) for name, _ in present]
        result = plan.result([part.cpu() if kept is None else kept for kept, (_, part) in zip(found, present, strict=True)])
        return result if divided is None else divided.join(torch.split(result, [held.numel for held in layouts]))

    def _buffers_at(self, index: int, everyone: Everyone, final: Sequence[Tensor]) -> list[Tensor]:
        """The mean of the workers' buffers at a moment; for workers whose buffers have not changed since, with the final ones."""
        if not self.buffers:
            return []
        mine = [snapshots.at(index) for (_, scope), snapshots in everyone.items() if scope == self._buffers]
        flat = torch.stack([_flat(final) if kept is None else kept for kept in mine]).mean(dim=0)
        parts = torch.split(flat, [buffer.numel() for buffer in final])
        return [part.view(buffer.shape).to(buffer.dtype) for part, buffer in zip(parts, final, strict=True)]


@dataclass(slots=True)
class FollowedTable:
    """A table, of which the servers keep copies. The function gets its content (rows, columns) as `Table.get` would give it."""

    table: TableState
    scope: str
    subject: Tensor = field(default_factory=lambda: torch.empty(0))

    models = ()

    def want(self, wanted: bool, actor: str, holders: Sequence[str]) -> None:
        """Nothing to do here: worker 0 asks the servers for copies."""

    def exchange(self, now: float) -> None:
        """Nothing to do here: the servers keep the copies."""

    def look(self, now: float) -> None:
        """Nothing to do here: the servers keep the copies."""

    def regroup(self, parts: Iterator[Part]) -> None:
        """Nothing to do: the table itself is among other workers now."""

    def own(self) -> list[tuple[str, Snapshots]]:
        return []

    def expected(self, holders: Sequence[str]) -> set[tuple[str, str]]:
        return {(name, self.scope) for name in self.table.crew.servers}

    def final(self) -> Tensor:
        """The whole table (rows, columns)."""
        assert self.table.content is not None, "only worker 0 evaluates, and all workers have ended"
        shape = self.table.shape
        return shape.kind.flat(self.table.content, shape.columns).view(shape.rows, shape.columns)

    def show(self, index: int, everyone: Everyone, final: Tensor) -> None:
        servers = self.table.crew.servers
        found = [everyone[name, self.scope].at(index) for name in servers]
        parts = [final[k :: len(servers)].reshape(-1) if kept is None else kept for k, kept in enumerate(found)]
        self.restore(self.table.shape.joined(parts))

    def restore(self, final: Tensor) -> None:
        kind, columns = self.table.shape.kind, self.table.shape.columns
        self.subject = kind.unpacked(kind.packed(final, columns), columns)


def _flat(buffers: Sequence[Tensor]) -> Tensor:
    return torch.cat([buffer.detach().reshape(-1).to("cpu", torch.float64) for buffer in buffers])
