"""One layout that a plan may choose."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

from polyrhythm.core.strategy.strategy import Strategy
from polyrhythm.core.training.layouts import given_partition, given_strategy
from polyrhythm.partition.cut import Cut
from polyrhythm.partition.layout import MeshLayout
from polyrhythm.partition.mesh import Mesh
from polyrhythm.partition.zero.zero import Zero


@dataclass(frozen=True)
class LayoutCandidate:
    """A layout, as `pr.run` is given it, and its `aspects`: what was chosen, in words, by what it is about."""

    mesh: Mesh
    cut: Cut
    strategy: str | Strategy | Mapping[str, str | Strategy | Zero]
    aspects: Mapping[str, str]

    @property
    def name(self) -> str:
        """It in words."""
        return ", ".join(filter(None, self.aspects.values()))

    @property
    def arguments(self) -> dict[str, Any]:
        """What `pr.run` is given to have it."""
        return {"mesh": self.mesh, "cut": self.cut, "strategy": self.strategy}

    @property
    def replicas(self) -> int:
        """The number of workers' groups that compute on different samples."""
        return prod(size for name, size in self.mesh.axes if name not in self.cut.axes)

    @property
    def kind(self) -> tuple[str, ...]:
        """What it has in common with those that differ from it in sizes, orders and settings only."""
        axes = tuple(sorted(name for name, size in self.mesh.axes if size > 1))
        return (*axes, *(self.aspects.get(each, "").partition("(")[0] for each in ("among replicas", "schedule", "boundary")))

    def layout(self) -> tuple[MeshLayout, Strategy]:
        """The partition and the strategy that a run makes of it. Raises CompositionError where they do not fit."""
        found, _ = given_partition(self.mesh, self.cut, self.strategy, None)
        assert isinstance(found, MeshLayout), "it has a mesh"
        return found, given_strategy(self.strategy, found)

    def changes(self, other: LayoutCandidate) -> list[str]:
        """The aspects in which `other` differs, as sentences' parts."""
        names = dict.fromkeys((*self.aspects, *other.aspects))
        pairs = [(name, self.aspects.get(name, ""), other.aspects.get(name, "")) for name in names]
        return [f"{name} {there or 'none'}" + (f" for {here}" if here else "") for name, here, there in pairs if here != there]
