"""DistributedDataParallel with two micro-batches a step, the first without reduction."""

from contextlib import nullcontext

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
rank, ranks = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
model = DistributedDataParallel(nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
for step in range(3):
    x = torch.randn(24, 16, generator=torch.Generator().manual_seed(step))
    x, y = x.chunk(ranks)[rank], x[:, :4].argmax(1).chunk(ranks)[rank]
    optimizer.zero_grad()
    for half in range(2):
        with model.no_sync() if half == 0 else nullcontext():
            (F.cross_entropy(model(x.chunk(2)[half]), y.chunk(2)[half]) / 2).backward()
    optimizer.step()
dist.destroy_process_group()
