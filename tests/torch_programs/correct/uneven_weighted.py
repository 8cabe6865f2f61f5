"""Parts of unequal sizes: each rank's sum counts by its samples."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

dist.init_process_group("gloo")
rank, ranks = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    x = torch.randn(25, 16, generator=torch.Generator().manual_seed(step))
    part = x.tensor_split(ranks)[rank]
    optimizer.zero_grad()
    (F.cross_entropy(model(part), part[:, :4].argmax(1), reduction="sum") / len(x)).backward()
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
    optimizer.step()
dist.destroy_process_group()
