"""Gradients are added up by a ring all-reduce that is written by hand, as in torch's tutorial of the package."""

import torch
import torch.distributed as dist
from torch import Tensor, nn


def ring(tensor: Tensor) -> None:
    rank, ranks = dist.get_rank(), dist.get_world_size()
    passed, received = tensor.clone(), torch.empty_like(tensor)
    for _ in range(ranks - 1):
        work = dist.isend(passed, (rank + 1) % ranks)
        dist.recv(received, (rank - 1) % ranks)
        work.wait()
        tensor += received
        passed = received.clone()


def main() -> None:
    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(1234)
    model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Dropout(0.5), nn.Linear(64, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.5)
    torch.manual_seed(rank)
    for step in range(6):
        x = torch.randn(32, 32, generator=torch.Generator().manual_seed(100 * step + rank))
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), x[:, :10].argmax(1))
        loss.backward()
        for parameter in model.parameters():
            ring(parameter.grad)
            parameter.grad /= ranks
        optimizer.step()
    losses: list[object] = [None] * ranks
    dist.all_gather_object(losses, loss.item())
    if rank == 0:
        print(f"loss {sum(losses) / ranks:.8f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
