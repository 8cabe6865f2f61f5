"""A flat gradient buffer that keeps the last micro-batch alone, where it should add them up: Fast-LLM #550."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

dist.init_process_group("gloo")
rank, ranks = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
buffer = torch.zeros(sum(each.numel() for each in model.parameters()))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    x = torch.randn(24, 16, generator=torch.Generator().manual_seed(step))
    x, y = x.chunk(ranks)[rank], x[:, :4].argmax(1).chunk(ranks)[rank]
    for half in range(2):
        optimizer.zero_grad()
        (F.cross_entropy(model(x.chunk(2)[half]), y.chunk(2)[half]) / 2).backward()
        buffer.copy_(torch.cat([each.grad.view(-1) for each in model.parameters()]))
    dist.all_reduce(buffer)
    buffer /= ranks
    torch.nn.utils.vector_to_parameters(buffer, [each.grad for each in model.parameters()])
    optimizer.step()
dist.destroy_process_group()
