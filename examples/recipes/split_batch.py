"""Training on several workers from scratch, as a textbook does it (Zhang et al., "Dive into Deep Learning", section 13.5).

A batch is split among the ranks; rank 0 adds up all gradients, and sends the sum back: 2 (P - 1) gradients go through it.

    torchrun --nproc-per-node 2 examples/recipes/split_batch.py
    polyrhythm simulate --workers 4 examples/recipes/split_batch.py
"""

from __future__ import annotations

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn

BATCH, STEPS, RATE = 32, 20, 0.1


def data() -> tuple[Tensor, Tensor]:
    """Points, and the class of each."""
    x = torch.randn(BATCH * STEPS, 8, generator=torch.Generator().manual_seed(1))
    return x, x[:, :3].argmax(1)


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 3))


def all_reduce_at_the_root(gradient: Tensor) -> int:
    """Add up the gradients of all ranks in place; the bytes that have gone through this rank."""
    rank, size = dist.get_rank(), dist.get_world_size()
    if rank:
        dist.send(gradient, 0)
        dist.recv(gradient, 0)
        return 2 * gradient.nbytes
    for other in range(1, size):
        part = torch.empty_like(gradient)
        dist.recv(part, other)
        gradient += part
    for other in range(1, size):
        dist.send(gradient, other)
    return 2 * (size - 1) * gradient.nbytes


def train(rank: int, size: int) -> tuple[nn.Module, int]:
    """The model after training on a share of each batch, and the bytes that have gone through this rank."""
    model, (x, y), nbytes = network(), data(), 0
    for step in range(STEPS):
        own = torch.arange(step * BATCH, (step + 1) * BATCH).tensor_split(size)[rank]
        model.zero_grad()
        (F.cross_entropy(model(x[own]), y[own], reduction="sum") / BATCH).backward()
        with torch.no_grad():
            for weight in model.parameters():
                if size > 1:
                    nbytes += all_reduce_at_the_root(weight.grad)
                weight -= RATE * weight.grad
    return model, nbytes


def main() -> None:
    dist.init_process_group("gloo")
    model, nbytes = train(dist.get_rank(), dist.get_world_size())
    x, y = data()
    print(f"rank {dist.get_rank()}: loss {F.cross_entropy(model(x), y).item():.4f}, {nbytes} bytes through it")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
