"""Tensor parallelism by hand, beside data parallelism by hand: columns, then rows, with the two conjugate functions of Megatron-LM."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn

dist.init_process_group("gloo")
rank, ranks = dist.get_rank(), dist.get_world_size()
size = min(2, ranks)
place, replica, replicas = rank % size, rank // size, ranks // size
tensors = [dist.new_group([first * size + each for each in range(size)]) for first in range(replicas)][replica]
data = [dist.new_group([each * size + first for each in range(replicas)]) for first in range(size)][place]


class Copied(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad: Tensor) -> Tensor:
        grad = grad.clone()
        dist.all_reduce(grad, group=tensors)
        return grad


class Summed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        x = x.clone()
        dist.all_reduce(x, group=tensors)
        return x

    @staticmethod
    def backward(ctx, grad: Tensor) -> Tensor:
        return grad


class Perceptron(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner, self.up, self.down = nn.Linear(16, 16), nn.Linear(16, 32), nn.Linear(32, 4, bias=False)
        self.up.weight = nn.Parameter(self.up.weight.detach().chunk(size)[place].clone())
        self.up.bias = nn.Parameter(self.up.bias.detach().chunk(size)[place].clone())
        self.down.weight = nn.Parameter(self.down.weight.detach().chunk(size, 1)[place].clone())

    def forward(self, x: Tensor) -> Tensor:
        return Summed.apply(self.down(F.relu(self.up(Copied.apply(self.inner(x))))))


torch.manual_seed(0)
model = Perceptron()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    x = torch.randn(24, 16, generator=torch.Generator().manual_seed(step))
    x, y = x.chunk(replicas)[replica], x[:, :4].argmax(1).chunk(replicas)[replica]
    optimizer.zero_grad()
    F.cross_entropy(model(x), y).backward()
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad, group=data)
        parameter.grad /= replicas
    optimizer.step()
dist.destroy_process_group()
