"""What each rank of a cut model holds and sends in one training step, found on tensors without memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

import torch
from torch import Tensor, nn

from polyrhythm.errors import CompositionError
from polyrhythm.partition.axis import Axis
from polyrhythm.partition.axis_of_one import AxisOfOne
from polyrhythm.partition.counted_axis import CountedAxis
from polyrhythm.partition.cut import Cut
from polyrhythm.partition.deferred import build
from polyrhythm.partition.mesh import Mesh
from polyrhythm.partition.place import Place
from polyrhythm.partition.placement import Placement, placement_of

_ROLES = ("parameters", "gradients", "optimizer", "activations")


@dataclass(frozen=True)
class ExplainedRank:
    """What the rank at `coordinates` of the cut's axes has and does in one step.

    `memory` is bytes by role; `calls` and `nbytes` are what it sends along each axis, by the name of the operation.
    """

    coordinates: Mapping[str, int]
    placements: Mapping[str, Placement]
    memory: Mapping[str, int]
    calls: Mapping[str, Mapping[str, int]]
    nbytes: Mapping[str, Mapping[str, int]]


@dataclass(frozen=True)
class LayoutExplanation:
    """The ranks of one replica on `mesh`, and a table of them when it is printed."""

    mesh: Mesh
    ranks: tuple[ExplainedRank, ...]

    def __str__(self) -> str:
        lines = [f"{self.mesh!r}: one replica, one training step, bytes at each rank"]
        for rank in self.ranks:
            at = ", ".join(f"{name}={index}" for name, index in rank.coordinates.items()) or "all workers"
            lines.append(f"  {at}: " + ", ".join(f"{role} {rank.memory[role]:,}" for role in _ROLES))
            for axis, sent in rank.nbytes.items():
                lines.extend(f"    {axis} {name}: {rank.calls[axis][name]} calls, {nbytes:,} bytes" for name, nbytes in sent.items())
        return "\n".join(lines)


def explain(
    mesh: Mesh,
    cut: Cut,
    make: Callable[[], nn.Module],
    inputs: Tensor,
    loss: Callable[[Any], Tensor],
    optimizer: Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer],
) -> LayoutExplanation:
    """What each rank of one replica holds and sends in one training step. Nothing is computed, so models of any size can be explained.

    `make` makes the whole model, `loss` is of its output for a replica's batch of the shape of `inputs`. Activations are what autograd
    keeps for the backward pass. What data axes send is not in it. Raises CompositionError for a cut that cannot be, and for pipelines.

    Examples:
        >>> from functools import partial
        >>> from polyrhythm.partition.tensor_parallel.columns import Columns
        >>> adam = partial(torch.optim.Adam, foreach=False)
        >>> cut = Cut({"0": Columns()})
        >>> found = explain(Mesh(tp=2), cut, lambda: nn.Sequential(nn.Linear(4, 6)), torch.empty(2, 4), torch.sum, adam)
        >>> found.ranks[0].memory["parameters"], found.ranks[0].memory["optimizer"]
        (60, 128)
    """
    if cut.pipeline is not None:
        raise CompositionError("explain cannot follow the stages of a pipeline yet: explain the cut without its pipeline.")
    missing = [name for name in cut.axes if name not in mesh.names]
    if missing:
        raise CompositionError(f"The cut divides along {missing[0]!r}, and {mesh!r} has no such axis: add it, or cut along another.")
    if mesh.workers is None:
        raise CompositionError(f"{mesh!r} has as many workers as there are: give the size of each axis.")
    sizes = {name: size for name, size in mesh.axes if name in cut.axes}
    ranks = []
    for indices in product(*(range(size) for size in sizes.values())):
        at = dict(zip(sizes, indices, strict=True))
        axes: dict[str, Axis] = {name: AxisOfOne(name) if size == 1 else CountedAxis(name, size, at[name]) for name, size in sizes.items()}
        model, _ = build(make)
        cut.apply(model, Place(axes, device="meta"))
        memory = _step(model, inputs.to("meta"), loss, optimizer)
        placements = {name: placement_of(parameter) for name, parameter in model.named_parameters()}
        calls, nbytes = ({name: dict(found) for name, found in each.items()} for each in _counts(axes))
        ranks.append(ExplainedRank(at, placements, memory, calls, nbytes))
    return LayoutExplanation(mesh, tuple(ranks))


def _counts(axes: Mapping[str, Axis]) -> tuple[Mapping[str, Mapping[str, int]], Mapping[str, Mapping[str, int]]]:
    return {name: axis.calls for name, axis in axes.items()}, {name: axis.nbytes for name, axis in axes.items()}


def _step(model: nn.Module, inputs: Tensor, loss: Callable[[Any], Tensor], make_optimizer: Callable[..., Any]) -> dict[str, int]:
    """The bytes by role of one training step."""
    parameters = list(model.parameters())
    held = {hash(each.untyped_storage()) for each in (*parameters, *model.buffers())}
    saved: dict[int, torch.UntypedStorage] = {}

    def keep(value: Tensor) -> Tensor:
        storage = value.untyped_storage()
        if hash(storage) not in held:
            saved[hash(storage)] = storage  # kept, so that no other gets its address
        return value.detach()

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda value: value):
        value = loss(model(inputs))
    activations = sum(storage.nbytes() for storage in saved.values())
    value.backward()  # type: ignore[no-untyped-call]
    optimizer = make_optimizer(parameters)
    optimizer.step()
    state = [each for of in optimizer.state.values() for each in of.values() if isinstance(each, Tensor)]
    gradients = [each.grad for each in parameters if each.grad is not None]
    return {"parameters": _bytes(parameters), "gradients": _bytes(gradients), "optimizer": _bytes(state), "activations": activations}


def _bytes(tensors: Iterable[Tensor]) -> int:
    return sum(prod(each.shape) * each.element_size() for each in tensors)
