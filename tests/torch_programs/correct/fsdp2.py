"""FSDP2: each layer sharded, then the whole."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.fsdp import fully_shard

dist.init_process_group("gloo")
rank, ranks = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 33), nn.ReLU(), nn.Linear(33, 16), nn.ReLU(), nn.Linear(16, 4))
for layer in model:
    if isinstance(layer, nn.Linear):
        fully_shard(layer)
fully_shard(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
for step in range(3):
    x = torch.randn(24, 16, generator=torch.Generator().manual_seed(step))
    x, y = x.chunk(ranks)[rank], x[:, :4].argmax(1).chunk(ranks)[rank]
    optimizer.zero_grad()
    F.cross_entropy(model(x), y).backward()
    optimizer.step()
dist.destroy_process_group()
