"""FSDP2 and tensor parallelism, with the loss averaged over all ranks, also those that share a batch: transformers #39674."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

dist.init_process_group("gloo")
ranks = dist.get_world_size()
tensor = min(2, ranks)
mesh = init_device_mesh("cpu", (ranks // tensor, tensor), mesh_dim_names=("data", "tensor"))
part, parts = mesh["data"].get_local_rank(), ranks // tensor
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 16))
parallelize_module(model, mesh["tensor"], {"0": ColwiseParallel(), "2": RowwiseParallel()})
fully_shard(model, mesh=mesh["data"])
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
for step in range(3):
    x = torch.randn(24, 16, generator=torch.Generator().manual_seed(step))
    x, y = x.chunk(parts)[part], x[:, :4].argmax(1).chunk(parts)[part]
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y, reduction="sum") / (len(x) * parts * tensor) * parts
    loss.backward()
    optimizer.step()
dist.destroy_process_group()
