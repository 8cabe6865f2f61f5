"""Post-local SGD with `torch.distributed.algorithms`: averages every four steps, after two steps of all-reduce."""

import torch
import torch.distributed as dist
import torch.distributed.algorithms.model_averaging.averagers as averagers
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks.post_localSGD_hook import PostLocalSGDState, post_localSGD_hook
from torch.distributed.optim import PostLocalSGDOptimizer
from torch.nn.parallel import DistributedDataParallel


def main() -> None:
    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 10)))
    subgroup, _ = dist.new_subgroups(1)
    model.register_comm_hook(PostLocalSGDState(None, subgroup, 2), post_localSGD_hook)
    averager = averagers.PeriodicModelAverager(period=4, warmup_steps=2)
    optimizer = PostLocalSGDOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), averager)
    for step in range(10):
        x = torch.randn(32, 32, generator=torch.Generator().manual_seed(100 * step + rank))
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), x[:, :10].argmax(1))
        loss.backward()
        optimizer.step()
    total = loss.detach()
    dist.all_reduce(total)
    if rank == 0:
        print(f"loss {total.item() / ranks:.8f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
