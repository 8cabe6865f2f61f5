"""Models in parts without a system of training around them: ranks of a mesh in virtual time, or one rank that only counts what it would
send. Reproductions of partitioning call these, and compare with one process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.utils.flop_counter import FlopCounterMode

from polyrhythm.core.simulator.simulator import Simulator
from polyrhythm.partition.axis import Axis
from polyrhythm.partition.axis_of_one import AxisOfOne
from polyrhythm.partition.counted_axis import CountedAxis
from polyrhythm.partition.group_axis import GroupAxis
from polyrhythm.partition.place import Place, without_memory
from polyrhythm.partition.placement import placement_of
from polyrhythm.torch_programs.simulate import simulate

Found = TypeVar("Found")


def at_every_rank(program: Callable[[Place], Found], sizes: Mapping[str, int], on: Simulator | None = None) -> list[Found]:
    """What `program(place)` returns at each rank of a mesh of these sizes, in virtual time."""
    found: dict[int, Found] = {}
    count = torch.Size(sizes.values()).numel()

    def main() -> None:
        dist.init_process_group("polyrhythm")
        mesh = init_device_mesh("cpu", tuple(sizes.values()), mesh_dim_names=tuple(sizes))
        axes: dict[str, Axis] = {}
        for name, size in sizes.items():
            axes[name] = AxisOfOne(name) if size == 1 else GroupAxis(name, mesh[name].get_group())
        found[dist.get_rank()] = program(Place(axes))
        dist.destroy_process_group()

    simulate(main, ranks=count, on=on or Simulator())
    return [found[rank] for rank in range(count)]


def counted_place(**sizes: int) -> Place:
    """The place of the first rank on axes that move nothing; parameters that are made there have no memory."""
    axes: dict[str, Axis] = {name: CountedAxis(name, size, 0) for name, size in sizes.items()}
    return Place(axes, initial=without_memory, device="meta")


def sent(place: Place, *names: str) -> int:
    """The bytes that the rank has sent along these axes, by default along all."""
    return sum(axis.nbytes.total() for name, axis in place.axes.items() if not names or name in names)


def trained(model: nn.Module, loss_of: Callable[[int], Tensor], steps: int) -> list[float]:
    """The loss of each step of SGD with momentum; `loss_of` makes the forward pass of a step."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    losses = []
    for step in range(steps):
        optimizer.zero_grad()
        loss = loss_of(step)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        losses.append(loss.item())
    return losses


def largest_gap(parts: Iterable[Mapping[str, Tensor]], whole: Mapping[str, Tensor]) -> float:
    """The largest difference of any weight, put together from the parts of all ranks, from that of one process; not a number where one is
    missing."""
    found = {name: torch.full_like(value, torch.nan).reshape(value.shape or (1,)) for name, value in whole.items()}
    for part in parts:
        for name, value in part.items():
            placement_of(value).piece.put(value.detach(), found[name])
    gaps = [(found[name].view_as(value).double() - value.detach().double()).abs().max() for name, value in whole.items()]
    return torch.stack(gaps).max().item()


def kept_numel(forward: Callable[[], Tensor], weights: Iterable[Tensor]) -> int:
    """The elements that a forward pass keeps for its backward pass, besides the weights; the backward pass is made too."""
    numel: list[int] = []
    of_weights = {weight.untyped_storage() for weight in weights}

    def keep(tensor: Tensor) -> Tensor:
        numel.append(0 if tensor.untyped_storage() in of_weights else tensor.numel())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        output = forward()
    output.sum().backward()  # type: ignore[no-untyped-call]
    return sum(numel)


def flops_of(function: Callable[[], Any]) -> float:
    """The counted operations of a function."""
    with FlopCounterMode(display=False) as counted:
        function()
    return float(counted.get_total_flops())
