"""Shards of gradients by hand, each clipped by its own norm: pytorch #170862, torchtune #2420."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn

dist.init_process_group("gloo")
rank, ranks = dist.get_rank(), dist.get_world_size()


class Summed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        x = x.clone()
        dist.all_reduce(x)
        return x

    @staticmethod
    def backward(ctx, grad: Tensor) -> Tensor:
        return grad


class Perceptron(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(16, 32, bias=False), nn.Linear(32, 4, bias=False)
        self.up.weight = nn.Parameter(self.up.weight.detach().chunk(ranks)[rank].clone())
        self.down.weight = nn.Parameter(self.down.weight.detach().chunk(ranks, 1)[rank].clone())

    def forward(self, x: Tensor) -> Tensor:
        return Summed.apply(self.down(F.relu(self.up(x))))


torch.manual_seed(0)
model = Perceptron()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    x = torch.randn(24, 16, generator=torch.Generator().manual_seed(step))
    optimizer.zero_grad()
    F.cross_entropy(model(x), x[:, :4].argmax(1)).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
    optimizer.step()
dist.destroy_process_group()
