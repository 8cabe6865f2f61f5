"""What is seen of each rank in the steps of a check. `watch`, `functions` and `moved` write it, and the detectors read it."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import Any

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor, distribute_tensor

from polyrhythm.partition.placement import placement_of


@dataclass(slots=True, eq=False)
class HeldParameter:
    """A parameter as a rank holds it when its first step begins.

    `value` is the rank's part of a whole of `shape`, of a module of class `kind`. `index` has the places of its elements in the whole,
    where a DTensor or a cut says so. `data` are the ranks that share its gradients, where FSDP2 says so.
    """

    name: str
    kind: str
    shape: tuple[int, ...]
    value: Tensor
    index: Tensor | None
    trained: bool
    alias: str
    data: tuple[int, ...] = ()


@dataclass(slots=True, eq=False)
class GradientSum:
    """What backward passes have added to the gradient of one parameter since its last step."""

    total: Tensor
    last: Tensor
    count: int = 1
    closed: bool = False
    """True once another optimizer has taken a step: what comes later is another sum."""


@dataclass(slots=True, eq=False)
class Clip:
    """A call of `clip_grad_norm_`: the norm that it returned, and the gradients before, by the names of their parameters."""

    norm: float
    limit: float
    gradients: dict[str, Tensor]
    where: str


@dataclass(slots=True, eq=False)
class DropoutCall:
    """A call of dropout: in which module, the digest of what went in, which elements of it were no zeros, and which became zeros."""

    module: str
    given: int
    there: Tensor
    dropped: Tensor
    where: str


@dataclass(slots=True, eq=False)
class ReplicaClaim:
    """A DTensor that says of dimensions of its mesh that all ranks hold the same: `digest` is of what this one holds, `whole` whether its
    shape is the one that its placements give."""

    what: str
    convolution: bool
    others: tuple[int, ...]
    digest: int
    fits: bool
    where: str


@dataclass(slots=True, eq=False)
class Moved:
    """A collective that a rank has issued: over which ranks, of which type, and whether FSDP2 did so to reduce gradients."""

    kind: str
    axis: str
    how: str
    ranks: tuple[int, ...]
    dtype: torch.dtype | None
    shapes: tuple[tuple[int, ...], ...]
    where: str
    sharding: bool
    backward: bool
    given: int = 0
    got: int = 0


@dataclass(slots=True, eq=False)
class StepSeen:
    """A step of the optimizers of one rank, by the names of parameters, and what led to it."""

    gradients: dict[str, Tensor] = field(default_factory=dict)
    contributions: dict[str, GradientSum] = field(default_factory=dict)
    values: dict[str, Tensor] = field(default_factory=dict)
    inputs: list[Tensor] = field(default_factory=list)
    targets: list[Tensor] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    backwards: list[float] = field(default_factory=list)
    clips: list[Clip] = field(default_factory=list)
    drops: list[DropoutCall] = field(default_factory=list)
    scalings: list[tuple[int, str]] = field(default_factory=list)
    where: str = ""


@dataclass(slots=True, eq=False)
class RankSeen:
    """One rank's."""

    rank: int
    parameters: dict[str, HeldParameter] = field(default_factory=dict)
    steps: list[StepSeen] = field(default_factory=list)
    now: StepSeen = field(default_factory=StepSeen)
    claims: list[ReplicaClaim] = field(default_factory=list)
    partials: list[str] = field(default_factory=list)
    moved: list[Moved] = field(default_factory=list)
    requested: set[torch.dtype] = field(default_factory=set)
    computed: set[torch.dtype] = field(default_factory=set)
    hooks: set[str] = field(default_factory=set)
    draws: bool = False
    enough: bool = False


@dataclass(slots=True, eq=False)
class Sight:
    """What was seen of a run; `error` ended it."""

    ranks: dict[int, RankSeen] = field(default_factory=dict)
    error: Exception | None = None

    @property
    def steps(self) -> int:
        """The steps that all ranks with an optimizer have taken."""
        return min((len(seen.steps) for seen in self.ranks.values() if seen.steps), default=0)

    def at(self, step: int) -> dict[int, StepSeen]:
        """What each rank did for step `step`; ranks without an optimizer have what they did in all steps."""
        return {
            rank: seen.steps[step] if step < len(seen.steps) else seen.now
            for rank, seen in sorted(self.ranks.items())
            if self._has(seen, step)
        }

    def _has(self, seen: RankSeen, step: int) -> bool:
        return step < len(seen.steps) or not seen.steps


def local(tensor: Tensor) -> Tensor:
    """The part of this rank, detached and dense."""
    found = tensor.detach()
    found = found.to_local() if isinstance(found, DTensor) else found
    return found if found.layout == torch.strided else found.to_dense()


def kept(tensor: Tensor) -> Tensor:
    """A copy of it that nobody changes."""
    return local(tensor).clone()


def index_of(tensor: Tensor) -> Tensor | None:
    """The places of this rank's elements of a DTensor, or of a parameter that a cut has divided, in the whole; None for other tensors."""
    piece = placement_of(tensor).piece
    if piece.shape != piece.whole:
        return piece.take(torch.arange(prod(piece.whole)).view(piece.whole))
    if not isinstance(tensor, DTensor) or any(each.is_partial() for each in tensor.placements):
        return None
    whole = torch.arange(tensor.numel()).view(tensor.shape)
    placed: Any = distribute_tensor(whole, tensor.device_mesh, tensor.placements, src_data_rank=None)
    return local(placed)


def whole_shape(parameter: Tensor) -> tuple[int, ...]:
    """The shape of the whole of which a parameter is a part."""
    piece = placement_of(parameter).piece
    return tuple(parameter.shape) if piece.shape == piece.whole else piece.whole


def digest(tensor: Tensor) -> int:
    """A number that differs where a bit differs."""
    flat = local(tensor).contiguous().view(-1)
    return hash((tuple(tensor.shape), flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b""))
