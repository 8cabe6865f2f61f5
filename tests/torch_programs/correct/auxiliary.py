"""DistributedDataParallel with an auxiliary loss that balances experts."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel


class Experts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.router = nn.Linear(16, 4)
        self.experts = nn.ModuleList(nn.Linear(16, 4) for _ in range(4))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        shares = self.router(x).softmax(-1)
        out = sum(shares[:, each, None] * expert(x) for each, expert in enumerate(self.experts))
        return out, (shares * shares.log()).sum(-1).mean()


dist.init_process_group("gloo")
rank, ranks = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
model = DistributedDataParallel(Experts())
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
for step in range(3):
    x = torch.randn(24, 16, generator=torch.Generator().manual_seed(step))
    x, y = x.chunk(ranks)[rank], x[:, :4].argmax(1).chunk(ranks)[rank]
    optimizer.zero_grad()
    out, auxiliary = model(x)
    (F.cross_entropy(out, y) + 0.1 * auxiliary).backward()
    optimizer.step()
dist.destroy_process_group()
