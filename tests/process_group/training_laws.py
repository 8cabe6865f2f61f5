"""Training in two processes, once for each backend, on the same batches from the same weights."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as checkpoint
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.distributed.algorithms.join import Join
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.pipelining import PipelineStage, Schedule1F1B
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel

STEPS = 5
WIDTH = 64
Groups = dict[str, dist.ProcessGroup]
Train = Callable[[dist.ProcessGroup], list[Tensor]]


def network() -> nn.Sequential:
    """With buffers, and large enough for two buckets of the sizes below."""
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(16, WIDTH), nn.BatchNorm1d(WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 4))


def take(model: nn.Module, optimizer: torch.optim.Optimizer, steps: int = STEPS) -> None:
    """Ordinary steps on this rank's batches."""
    generator = torch.Generator().manual_seed(10 + dist.get_rank())
    for _ in range(steps):
        x, y = torch.randn(8, 16, generator=generator), torch.randint(0, 4, (8,), generator=generator)
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()


def weights(model: nn.Module) -> list[Tensor]:
    """Everything that was trained or counted."""
    return [tensor.detach().clone() for tensor in (*model.parameters(), *model.buffers())]


def laws(folder: str) -> dict[str, Callable[[], None]]:
    """For each way of training: the same bits through both backends."""
    groups = {"polyrhythm": dist.group.WORLD, "gloo": dist.new_group(backend="gloo")}
    trains: dict[str, Train] = {
        "plain": partial(replicated, register=lambda model, group: None),
        "fp16 hook": partial(replicated, register=lambda model, group: model.register_comm_hook(group, default_hooks.fp16_compress_hook)),
        "PowerSGD hook": partial(replicated, register=power_sgd, bucket_megabytes=25.0),
        "static graph": partial(replicated, register=lambda model, group: model._set_static_graph()),
        "unused parameters": unused,
        "uneven inputs": uneven,
        "ZeRO": zero,
        "1F1B": pipelined,
        "tensor parallel": cut_in_columns_and_rows,
        "FSDP2": partial(sharded, policy=MixedPrecisionPolicy()),
        "FSDP2 in bfloat16": partial(sharded, policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)),
    }
    found: dict[str, Callable[[], None]] = {name: partial(same_bits, train, groups) for name, train in trains.items()}
    return found | {"checkpoint": partial(round_trip, folder), "PowerSGD in several buckets": power_sgd_in_buckets}


def same_bits(train: Train, groups: Groups) -> None:
    ours, theirs = train(groups["polyrhythm"]), train(groups["gloo"])
    assert len(ours) == len(theirs)
    for number, (mine, other) in enumerate(zip(ours, theirs, strict=True)):
        assert torch.equal(mine, other), f"tensor {number} differs by up to {(mine - other).abs().max()}"
    assert not torch.equal(ours[0], network()[0].weight), "nothing was trained"


def replicated(
    group: dist.ProcessGroup, register: Callable[[DistributedDataParallel, dist.ProcessGroup], Any], bucket_megabytes: float = 0.01
) -> list[Tensor]:
    """DistributedDataParallel; with small buckets several are under way at once."""
    model = DistributedDataParallel(network(), process_group=group, bucket_cap_mb=bucket_megabytes)
    register(model, group)
    take(model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9))
    return weights(model)


def power_sgd(model: DistributedDataParallel, group: dist.ProcessGroup) -> None:
    """Compressing from the second step on."""
    state = powerSGD_hook.PowerSGDState(group, matrix_approximation_rank=2, start_powerSGD_iter=2, min_compression_rate=1)
    model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)


def power_sgd_in_buckets() -> None:
    """Here gloo mixes up the collectives that the hook chains to each other's futures, and aborts the process."""
    assert dist.group.WORLD is not None
    mine = replicated(dist.group.WORLD, power_sgd)[0]
    everyones = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
    dist.all_gather(everyones, mine)
    assert all(torch.equal(each, mine) for each in everyones)


def unused(group: dist.ProcessGroup) -> list[Tensor]:
    """A branch that only one rank takes."""

    class Branching(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body, self.extra = network(), nn.Linear(4, 4)

        def forward(self, x: Tensor) -> Tensor:
            out: Tensor = self.body(x)
            return self.extra(out) if dist.get_rank() else out

    torch.manual_seed(1)
    model = DistributedDataParallel(Branching(), process_group=group, find_unused_parameters=True)
    take(model, torch.optim.SGD(model.parameters(), lr=0.1))
    return weights(model)


def uneven(group: dist.ProcessGroup) -> list[Tensor]:
    """One rank has more batches than the other."""
    model = DistributedDataParallel(network(), process_group=group)
    with Join([model]):
        take(model, torch.optim.SGD(model.parameters(), lr=0.1), STEPS + dist.get_rank())
    return weights(model)


def zero(group: dist.ProcessGroup) -> list[Tensor]:
    """The state of the optimizer divided over the ranks."""
    from torch.distributed.optim import ZeroRedundancyOptimizer  # torch warns of itself when this is imported

    model = DistributedDataParallel(network(), process_group=group)
    take(model, ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, process_group=group, lr=0.01))
    return weights(model)


def pipelined(group: dist.ProcessGroup) -> list[Tensor]:
    """Two stages, four micro-batches; each rank gets the weights of both."""
    rank, layers = group.rank(), [layer for layer in network() if not isinstance(layer, nn.BatchNorm1d)]
    part = nn.Sequential(*(layers[:2], layers[2:])[rank])
    schedule = Schedule1F1B(PipelineStage(part, rank, 2, torch.device("cpu"), group=group), 4, F.cross_entropy)
    optimizer = torch.optim.SGD(part.parameters(), lr=0.1)
    generator = torch.Generator().manual_seed(10)
    for _ in range(STEPS):
        x, y = torch.randn(8, 16, generator=generator), torch.randint(0, 4, (8,), generator=generator)
        optimizer.zero_grad()
        if rank:
            schedule.step(target=y)
        else:
            schedule.step(x)
        optimizer.step()
    both: list[list[Tensor]] = [[], []]
    dist.all_gather_object(both, weights(part), group=group)
    return both[0] + both[1]


def cut_in_columns_and_rows(group: dist.ProcessGroup) -> list[Tensor]:
    """DTensor: the first layer's outputs and the last one's inputs are divided."""
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(16, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 4))
    mesh = DeviceMesh.from_group(group, "cpu")
    parallelize_module(model, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    generator = torch.Generator().manual_seed(10)  # the same batches at both ranks
    for _ in range(STEPS):
        x, y = torch.randn(8, 16, generator=generator), torch.randint(0, 4, (8,), generator=generator)
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
    return [parameter.full_tensor().detach().clone() for parameter in model.parameters()]  # type: ignore[attr-defined]


def sharded(group: dist.ProcessGroup, policy: MixedPrecisionPolicy) -> list[Tensor]:
    """FSDP2, each linear layer on its own."""
    mesh = DeviceMesh.from_group(group, "cpu")
    model = network()
    del model[1]  # gloo has no bfloat16 statistics to offer
    for layer in model:
        if isinstance(layer, nn.Linear):
            fully_shard(layer, mesh=mesh, mp_policy=policy)
    fully_shard(model, mesh=mesh, mp_policy=policy)
    for module in model.modules():
        if hasattr(module, "set_force_sum_reduction_for_comms"):
            module.set_force_sum_reduction_for_comms(True)
    take(model, torch.optim.Adam(model.parameters(), lr=0.01))
    return [parameter.full_tensor().detach().clone() for parameter in model.parameters()]  # type: ignore[attr-defined]


def round_trip(folder: str) -> None:
    """A sharded model and its optimizer are saved by both ranks and read back into others."""

    def made() -> tuple[nn.Module, torch.optim.Optimizer]:
        model = fully_shard(network())
        return model, torch.optim.Adam(model.parameters(), lr=0.01)

    model, optimizer = made()
    take(model, optimizer)
    state = dict(zip(("model", "optimizer"), get_state_dict(model, optimizer), strict=True))
    checkpoint.save(state, checkpoint_id=str(Path(folder) / "saved"))
    again, its_optimizer = made()
    state = dict(zip(("model", "optimizer"), get_state_dict(again, its_optimizer), strict=True))
    checkpoint.load(state, checkpoint_id=str(Path(folder) / "saved"))
    set_state_dict(again, its_optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
    for each_model, each_optimizer in ((model, optimizer), (again, its_optimizer)):
        take(each_model, each_optimizer, 2)
    for mine, other in zip(model.parameters(), again.parameters(), strict=True):
        assert torch.equal(mine.full_tensor(), other.full_tensor())  # type: ignore[attr-defined]
