"""FSDP2 over tensor parallelism, on a mesh of two axes."""

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module


def main() -> None:
    dist.init_process_group("gloo")
    mesh = init_device_mesh("cpu", (dist.get_world_size() // 2, 2), mesh_dim_names=("dp", "tp"))
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    parallelize_module(model, mesh["tp"], {"0": ColwiseParallel(), "2": RowwiseParallel()})
    fully_shard(model, mesh=mesh["dp"])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(8):
        x = torch.randn(32, 32, generator=torch.Generator().manual_seed(step)).chunk(mesh["dp"].size())[mesh["dp"].get_local_rank()]
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), x[:, :10].argmax(1))
        loss.backward()
        optimizer.step()
    total = loss.detach()
    dist.all_reduce(total, group=mesh["dp"].get_group())
    if dist.get_rank() == 0:
        print(f"loss {total.item() / mesh['dp'].size():.8f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
