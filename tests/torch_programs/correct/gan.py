"""Two models, two optimizers: backward passes leave gradients that nobody uses."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
rank, ranks = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)


def batch(step):
    x = torch.randn(24, 16, generator=torch.Generator().manual_seed(step)).chunk(ranks)[rank]
    return x, x[:, :4].argmax(1)


g = DistributedDataParallel(nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 16)))
d = DistributedDataParallel(nn.Sequential(nn.Linear(16, 16), nn.LeakyReLU(), nn.Linear(16, 1)), broadcast_buffers=False)
og = torch.optim.Adam(g.parameters(), lr=0.01)
od = torch.optim.Adam(d.parameters(), lr=0.01)
for s in range(4):
    x, _ = batch(s)
    z = x[:, :4] * 0.5
    od.zero_grad()
    (F.softplus(-d(x)).mean() + F.softplus(d(g(z).detach())).mean()).backward()
    od.step()
    og.zero_grad()
    F.softplus(-d(g(z))).mean().backward()
    og.step()
