"""A pipeline with a stage for each rank: all forward passes, then all backward passes."""

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe


def main() -> None:
    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    layers = [nn.Sequential(nn.Linear(32, 32), nn.Tanh()) for _ in range(8)]
    own = nn.Sequential(*(layers[k] for k in torch.tensor_split(torch.arange(8), ranks)[rank].tolist()))
    stage = PipelineStage(own, rank, ranks, torch.device("cpu"))
    schedule = ScheduleGPipe(stage, n_microbatches=8, loss_fn=nn.functional.cross_entropy)
    optimizer = torch.optim.SGD(own.parameters(), lr=0.05)
    for step in range(5):
        x = torch.randn(32, 32, generator=torch.Generator().manual_seed(step))
        losses: list[torch.Tensor] = []
        optimizer.zero_grad()
        if rank == 0:
            schedule.step(x)
        elif rank == ranks - 1:
            schedule.step(target=x[:, :32].argmax(1), losses=losses)
        else:
            schedule.step()
        optimizer.step()
    if rank == ranks - 1:
        print(f"loss {torch.stack(losses).mean().item():.8f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
