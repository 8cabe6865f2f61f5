"""Gradients that go around a ring of sends and receives, each block added up in one place, so that all ranks get the same bits."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn


def ring(flat: Tensor, rank: int, ranks: int) -> Tensor:
    parts = [part.clone() for part in torch.tensor_split(flat, ranks)]
    for phase in range(2):
        for step in range(ranks - 1):
            out, into = (rank - step + phase) % ranks, (rank - step - 1 + phase) % ranks
            received = torch.empty_like(parts[into])
            works = dist.batch_isend_irecv(
                [dist.P2POp(dist.isend, parts[out], (rank + 1) % ranks), dist.P2POp(dist.irecv, received, (rank - 1) % ranks)]
            )
            for work in works:
                work.wait()
            parts[into] = received if phase else parts[into] + received
    return torch.cat(parts)


dist.init_process_group("gloo")
rank, ranks = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    x = torch.randn(24, 16, generator=torch.Generator().manual_seed(step))
    x, y = x.chunk(ranks)[rank], x[:, :4].argmax(1).chunk(ranks)[rank]
    optimizer.zero_grad()
    F.cross_entropy(model(x), y).backward()
    total = ring(torch.cat([each.grad.view(-1) for each in model.parameters()]), rank, ranks) / ranks
    torch.nn.utils.vector_to_parameters(total, [each.grad for each in model.parameters()])
    optimizer.step()
dist.destroy_process_group()
