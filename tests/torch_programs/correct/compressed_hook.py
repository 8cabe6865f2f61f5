"""DistributedDataParallel that reduces gradients in float16, by torch's own communication hook."""

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
rank, ranks = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
model = DistributedDataParallel(nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 3)))
model.register_comm_hook(None, fp16_compress_hook)
optimizer = torch.optim.RMSprop(model.parameters(), lr=0.01)
for step in range(3):
    x = torch.randn(8, 6, generator=torch.Generator().manual_seed(step)).chunk(ranks)[rank]
    optimizer.zero_grad()
    model(x).square().mean().backward()
    optimizer.step()
dist.destroy_process_group()
