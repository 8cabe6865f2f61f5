"""A pipeline by hand of two stages that share the embedding, whose gradients nobody sums: Megatron-LM #299, #656, piper #13."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn


class First(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.inner = nn.Embedding(20, 16), nn.Linear(16, 16)

    def forward(self, tokens: Tensor) -> Tensor:
        return torch.tanh(self.inner(self.embed(tokens)))


class Last(nn.Module):
    def __init__(self, embed: nn.Embedding) -> None:
        super().__init__()
        self.outer, self.head = nn.Linear(16, 16), nn.Linear(16, 20, bias=False)
        self.head.weight = embed.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.tanh(self.outer(x)))


dist.init_process_group("gloo")
rank, ranks = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
first = First()
last = Last(first.embed)
own = nn.Sequential(first, last) if ranks == 1 else [first, last][rank]
optimizer = torch.optim.SGD(own.parameters(), lr=0.1)
for step in range(3):
    tokens = torch.randint(0, 20, (6, 8), generator=torch.Generator().manual_seed(step))
    targets = tokens.roll(-1, 1).flatten()
    optimizer.zero_grad()
    if ranks == 1:
        F.cross_entropy(own(tokens).flatten(0, 1), targets).backward()
    elif rank == 0:
        out = own(tokens)
        dist.send(out.detach(), 1)
        grad = torch.empty_like(out)
        dist.recv(grad, 1)
        out.backward(grad)
    else:
        x = torch.empty(6, 8, 16)
        dist.recv(x, 0)
        x.requires_grad_()
        F.cross_entropy(own(x).flatten(0, 1), targets).backward()
        dist.send(x.grad, 0)
    optimizer.step()
dist.destroy_process_group()
