"""Gradients averaged by hand, after weights were broadcast; the mean loss is printed."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

dist.init_process_group("gloo")
rank, ranks = dist.get_rank(), dist.get_world_size()
torch.manual_seed(rank)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
for parameter in model.parameters():
    dist.broadcast(parameter.data, 0)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
for step in range(3):
    x = torch.randn(24, 16, generator=torch.Generator().manual_seed(step))
    x, y = x.chunk(ranks)[rank], x[:, :4].argmax(1).chunk(ranks)[rank]
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
        parameter.grad /= ranks
    optimizer.step()
    mean = loss.detach().clone()
    dist.all_reduce(mean)
    if rank == 0:
        print(step, mean.item() / ranks)
dist.destroy_process_group()
