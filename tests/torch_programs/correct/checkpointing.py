"""Activation checkpointing with dropout, and an evaluation after each step."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

dist.init_process_group("gloo")
rank, ranks = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)


def batch(step):
    x = torch.randn(24, 16, generator=torch.Generator().manual_seed(step)).chunk(ranks)[rank]
    return x, x[:, :4].argmax(1)


class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(16, 32)
        self.b = nn.Sequential(nn.Linear(32, 32), nn.GELU(), nn.Dropout(0.1))
        self.c = nn.Linear(32, 4)

    def forward(self, x):
        return self.c(checkpoint(self.b, F.relu(self.a(x)), use_reentrant=False))


m = DistributedDataParallel(M())
torch.manual_seed(1 + rank)
o = torch.optim.Adam(m.parameters(), lr=0.01)
for s in range(3):
    x, y = batch(s)
    o.zero_grad()
    F.cross_entropy(m(x), y).backward()
    o.step()
    m.eval()
    with torch.no_grad():
        m(x)
    m.train()
