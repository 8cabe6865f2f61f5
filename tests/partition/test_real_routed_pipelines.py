"""Micro-batches on routes through processes: one start for all plans."""

from __future__ import annotations

import time
from typing import Any

import pytest
import torch.distributed as dist
import torch_ranks

from polyrhythm.partition.group_axis import GroupAxis
from polyrhythm.partition.pipeline import Activations, GPipe, OneForwardOneBackward, Pipelined, Recompute
from polyrhythm.partition.place import Place

from .ranks import axes_of, close
from .test_routed_pipelines import MICRO, plans, trained

WAYS: dict[str, Any] = {
    "GPipe": {"schedule": GPipe()},
    "OneForwardOneBackward": {"schedule": OneForwardOneBackward(), "memory": Recompute()},
    "Activations": {"boundary": Activations(4, 8)},
}
PLANS = plans(2, 2)


def every_way(rank: int, ranks: int) -> dict[str, list[Any]]:
    """Of each way without routes, and with those of each plan."""
    axes = axes_of({"dp": 2, "pp": 2})
    joints = {("dp", "pp"): GroupAxis("joint", dist.group.WORLD)}
    place = Place(axes, replica=axes["dp"].index, joints=joints, now=time.perf_counter)
    found = {
        name: [trained(Pipelined(micro_batches=MICRO, routes=plan, **way))(place, rank) for plan in (None, *PLANS)]
        for name, way in WAYS.items()
    }
    dist.barrier()
    return found


@pytest.fixture(scope="module")
def found() -> list[dict[str, list[Any]]]:
    return torch_ranks.run(every_way, 4)


@pytest.mark.parametrize("way", WAYS)
def test_any_routes_of_processes_train_as_none_do(way: str, found: list[dict[str, list[Any]]]) -> None:
    for rank in found:
        (losses, outputs, weights), *others = rank[way]
        for their_losses, their_outputs, their_weights in others:
            close(their_losses, losses)
            close(their_outputs, outputs, 1e-4, 1e-4)
            for name, value in weights.items():
                close(their_weights[name], value)
