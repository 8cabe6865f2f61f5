"""DistributedDataParallel of a model whose first layer is frozen."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
rank, ranks = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
model[0].requires_grad_(False)
model = DistributedDataParallel(model)
optimizer = torch.optim.SGD([each for each in model.parameters() if each.requires_grad], lr=0.1)
for step in range(3):
    x = torch.randn(24, 16, generator=torch.Generator().manual_seed(step))
    x, y = x.chunk(ranks)[rank], x[:, :4].argmax(1).chunk(ranks)[rank]
    optimizer.zero_grad()
    F.cross_entropy(model(x), y).backward()
    optimizer.step()
dist.destroy_process_group()
