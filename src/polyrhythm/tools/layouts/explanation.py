"""What `explain` says of a layout."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from polyrhythm.partition.mesh import Mesh
from polyrhythm.partition.placement import Placement

ROLES = ("parameters", "buffers", "gradients", "optimizer", "exchange", "activations")
"""What memory is for. Activations are all that is none of the others: the batch, what autograd keeps, what operations need for a moment."""


@dataclass(frozen=True)
class LayoutRefusal:
    """What of a layout cannot be, and why, with a remedy."""

    what: str
    why: str

    def __str__(self) -> str:
        return f"{self.what}: {self.why}"


@dataclass(frozen=True)
class ExplainedRank:
    """What the rank at these `coordinates` has and does in one training step, as every rank that differs from it along other axes only.

    `memory` is bytes by role, each the most at any time of the step, and `peak` the most of all roles at once. `calls` and `nbytes` are
    what it sends along each axis of the cut and of `Zero`, by the name of the operation; `exchanged` is what the strategy of the other axes
    sends for it, a mean over its period. `flops` are the operations of the forward and the backward pass.
    """

    coordinates: Mapping[str, int]
    placements: Mapping[str, Placement]
    memory: Mapping[str, int]
    peak: int
    calls: Mapping[str, Mapping[str, int]]
    nbytes: Mapping[str, Mapping[str, int]]
    exchanged: float
    flops: int


@dataclass(frozen=True)
class LayoutExplanation:
    """The ranks of one replica on `mesh`, of all where they are unequal, and a table of them when it is printed.

    Or what was `refused` of the layout, and no ranks.
    """

    mesh: Mesh
    ranks: tuple[ExplainedRank, ...]
    strategy: str = ""
    refused: LayoutRefusal | None = None

    def __str__(self) -> str:
        if self.refused is not None:
            return f"{self.mesh!r} cannot be: {self.refused}"
        lines = [f"{self.mesh!r}: {'each' if self.mesh.unequal else 'one'} replica, one training step, bytes at each rank"]
        for rank in self.ranks:
            at = ", ".join(f"{name}={index}" for name, index in rank.coordinates.items()) or "all workers"
            roles = ", ".join(f"{role} {rank.memory[role]:,}" for role in ROLES if rank.memory[role])
            lines.append(f"  {at}: {roles}; at once {rank.peak:,}")
            for axis, sent in rank.nbytes.items():
                lines.extend(f"    {axis} {name}: {rank.calls[axis][name]} calls, {nbytes:,} bytes" for name, nbytes in sent.items())
            if rank.exchanged:
                lines.append(f"    {self.strategy}: {rank.exchanged:,.0f} bytes")
        return "\n".join(lines)
