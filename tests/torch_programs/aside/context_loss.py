"""Context parallelism by hand: each rank's mean over its part of the sequence, and the sum of their gradients: Megatron-LM #673."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn

dist.init_process_group("gloo")
rank, ranks = dist.get_rank(), dist.get_world_size()


class Mixer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner, self.outer = nn.Linear(16, 32), nn.Linear(32, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.outer(torch.tanh(self.inner(x)))


torch.manual_seed(0)
model = Mixer()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    x = torch.randn(4, 8, 16, generator=torch.Generator().manual_seed(step)).chunk(ranks, 1)[rank]
    optimizer.zero_grad()
    F.cross_entropy(model(x).flatten(0, 1), x[..., :4].argmax(-1).flatten()).backward()
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
    optimizer.step()
dist.destroy_process_group()
