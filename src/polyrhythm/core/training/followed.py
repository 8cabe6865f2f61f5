"""What an evaluation follows: parts of models, and tables, of which copies are kept at the moments of a grid."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from polyrhythm.core.protocols.division import Divided
from polyrhythm.core.protocols.snapshots import Snapshots
from polyrhythm.core.strategy.part import Part
from polyrhythm.core.tables.table_state import TableState

Everyone = Mapping[tuple[str, str], Snapshots]
"""What was kept, by actor and scope."""


class Followed(Protocol):
    """One of them, at one worker."""

    @property
    def subject(self) -> object:
        """What the user's function gets; parts of one model have the same."""

    @property
    def models(self) -> Sequence[nn.Module]:
        """The models that it is part of."""

    def want(self, wanted: bool, actor: str, holders: Sequence[str]) -> None:
        """Keep copies from now on at `actor`, if `wanted` and it has any; buffers are kept at their `holders`."""

    def exchange(self, now: float) -> None:
        """An exchange begins."""

    def look(self, now: float) -> None:
        """A step has ended, or copies are wanted from now on."""

    def own(self) -> list[tuple[str, Snapshots]]:
        """What this worker keeps, by scope."""

    def expected(self, holders: Sequence[str]) -> set[tuple[str, str]]:
        """All that is kept, by actor and scope."""

    def final(self) -> Any:
        """What it is at the end, for the following."""

    def show(self, index: int, everyone: Everyone, final: Any) -> None:
        """Have the subject be as it was at a moment."""

    def restore(self, final: Any) -> None:
        """Have the subject be as it is at the end."""


@dataclass(slots=True)
class FollowedPart:
    """A part of a replica, and its model; `buffers` are the model's floating-point ones, at the first part of it.

    `snapshots` has those of the step that was under way at a moment, as its forward pass left them. A copy is taken when a moment has
    passed; what they were before that pass is then gone, and keeping it would take a copy at every step.
    """

    part: Part
    subject: nn.Module
    buffers: list[Tensor]
    snapshots: Snapshots

    @property
    def models(self) -> Sequence[nn.Module]:
        """Its model."""
        return [self.subject]

    def want(self, wanted: bool, actor: str, holders: Sequence[str]) -> None:
        """As in the protocol."""
        self.part.snapshots.wanted = wanted and actor in self.part.planned.plan.result_actors()
        self.snapshots.wanted = wanted and bool(self.buffers) and actor in holders

    def exchange(self, now: float) -> None:
        """As in the protocol."""
        self.part.look()
        self.look(now)

    def look(self, now: float) -> None:
        """Keep the buffers, if a moment of the grid has passed since they were looked at."""
        if self.snapshots.due(now):
            self.snapshots.look(now, _flat(self.buffers))

    def own(self) -> list[tuple[str, Snapshots]]:
        """As in the protocol."""
        kept = [(self.part.scope, self.part.snapshots), (self._buffers, self.snapshots)]
        return [(scope, snapshots) for scope, snapshots in kept if snapshots.wanted]

    def expected(self, holders: Sequence[str]) -> set[tuple[str, str]]:
        """As in the protocol."""
        weights = {(name, self.part.scope) for name in self.part.planned.plan.result_actors()}
        return weights | {(name, self._buffers) for name in holders if self.buffers}

    def final(self) -> tuple[Tensor, list[Tensor]]:
        """The weights and the buffers."""
        return self.part.parameters.flat.clone(), [buffer.clone() for buffer in self.buffers]

    def show(self, index: int, everyone: Everyone, final: tuple[Tensor, list[Tensor]]) -> None:
        """As in the protocol."""
        weights, buffers = final
        self.restore((self._at(index, everyone, weights), self._buffers_at(index, everyone, buffers)))

    def restore(self, final: tuple[Tensor, list[Tensor]]) -> None:
        """As in the protocol."""
        weights, buffers = final
        with torch.no_grad():
            self.part.parameters.flat.copy_(weights)
            for buffer, value in zip(self.buffers, buffers, strict=True):
                buffer.copy_(value)

    @property
    def _buffers(self) -> str:
        return f"{self.part.scope}buffers"

    def _at(self, index: int, everyone: Everyone, final: Tensor) -> Tensor:
        """The result at a moment; of one that has changed nothing since, its part of the final weights."""
        plan, layout = self.part.planned.plan, self.part.parameters.layout
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
        """The mean of what the workers had at a moment; of those who have changed nothing since, what is final."""
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
        """Servers are told by worker 0."""

    def exchange(self, now: float) -> None:
        """Nothing: servers look."""

    def look(self, now: float) -> None:
        """Nothing: servers look."""

    def own(self) -> list[tuple[str, Snapshots]]:
        """None."""
        return []

    def expected(self, holders: Sequence[str]) -> set[tuple[str, str]]:
        """As in the protocol."""
        return {(name, self.scope) for name in self.table.crew.servers}

    def final(self) -> Tensor:
        """The whole table (rows, columns)."""
        assert self.table.content is not None, "only worker 0 evaluates, and all workers have ended"
        shape = self.table.shape
        return shape.kind.flat(self.table.content, shape.columns).view(shape.rows, shape.columns)

    def show(self, index: int, everyone: Everyone, final: Tensor) -> None:
        """As in the protocol."""
        servers = self.table.crew.servers
        found = [everyone[name, self.scope].at(index) for name in servers]
        parts = [final[k :: len(servers)].reshape(-1) if kept is None else kept for k, kept in enumerate(found)]
        self.restore(self.table.shape.joined(parts))

    def restore(self, final: Tensor) -> None:
        """As in the protocol."""
        kind, columns = self.table.shape.kind, self.table.shape.columns
        self.subject = kind.unpacked(kind.packed(final, columns), columns)


def _flat(buffers: Sequence[Tensor]) -> Tensor:
    return torch.cat([buffer.detach().reshape(-1).to("cpu", torch.float64) for buffer in buffers])
