"""Ranks of a partition in virtual time, and the one process that they are compared with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.device_mesh import init_device_mesh

import polyrhythm as pr
from polyrhythm.partition.axis import Axis
from polyrhythm.partition.axis_of_one import AxisOfOne
from polyrhythm.partition.group_axis import GroupAxis
from polyrhythm.partition.place import Place

Program = Callable[[Place, int], Any]


def axes_of(sizes: Mapping[str, int]) -> dict[str, Axis]:
    """The axes of this rank, in row-major order."""
    mesh = init_device_mesh("cpu", tuple(sizes.values()), mesh_dim_names=tuple(sizes))
    return {name: AxisOfOne(name) if size == 1 else GroupAxis(name, mesh[name].get_group()) for name, size in sizes.items()}


def on_ranks(program: Program, **sizes: int) -> list[Any]:
    """What `program(place, rank)` returns at each rank of a mesh of these sizes, in virtual time."""
    found: dict[int, Any] = {}
    count = torch.Size(sizes.values()).numel()

    def main() -> None:
        dist.init_process_group("polyrhythm")
        rank = dist.get_rank()
        found[rank] = program(Place(axes_of(sizes)), rank)
        dist.destroy_process_group()

    pr.simulate(main, ranks=count, on=pr.Simulator())
    return [found[rank] for rank in range(count)]


def close(one: Tensor, other: Tensor, rtol: float = 1e-5, atol: float = 1e-5) -> None:
    torch.testing.assert_close(one, other, rtol=rtol, atol=atol)
