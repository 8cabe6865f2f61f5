"""ZeroRedundancyOptimizer beside DistributedDataParallel."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
rank, ranks = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)


def batch(step):
    x = torch.randn(24, 16, generator=torch.Generator().manual_seed(step)).chunk(ranks)[rank]
    return x, x[:, :4].argmax(1)


m = DistributedDataParallel(nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)))
o = ZeroRedundancyOptimizer(m.parameters(), torch.optim.AdamW, lr=0.01)
for s in range(3):
    x, y = batch(s)
    o.zero_grad()
    F.cross_entropy(m(x), y).backward()
    o.step()
