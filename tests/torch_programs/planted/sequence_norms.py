"""Sequence parallelism by hand, where nobody sums the gradients of the norm over the tensor ranks: Megatron-LM #1446."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn

dist.init_process_group("gloo")
rank, ranks = dist.get_rank(), dist.get_world_size()


class Gathered(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        parts = [torch.empty_like(x) for _ in range(ranks)]
        dist.all_gather(parts, x.contiguous())
        return torch.cat(parts, 1)

    @staticmethod
    def backward(ctx, grad: Tensor) -> Tensor:
        grad = grad.clone()
        dist.all_reduce(grad)
        return grad.chunk(ranks, 1)[rank]


class Summed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        x = x.clone()
        dist.all_reduce(x)
        return x

    @staticmethod
    def backward(ctx, grad: Tensor) -> Tensor:
        return grad


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(16), nn.Linear(16, 32, bias=False), nn.Linear(32, 4, bias=False)
        self.up.weight = nn.Parameter(self.up.weight.detach().chunk(ranks)[rank].clone())
        self.down.weight = nn.Parameter(self.down.weight.detach().chunk(ranks, 1)[rank].clone())

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm(x.chunk(ranks, 1)[rank])
        return Summed.apply(self.down(F.gelu(self.up(Gathered.apply(x)))))


torch.manual_seed(0)
model = Block()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    x = torch.randn(4, 8, 16, generator=torch.Generator().manual_seed(step))
    optimizer.zero_grad()
    F.cross_entropy(model(x).flatten(0, 1), x[..., :4].argmax(-1).flatten()).backward()
    optimizer.step()
dist.destroy_process_group()
