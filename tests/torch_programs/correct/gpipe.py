"""GPipe: a stage on each rank, four micro-batches."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

dist.init_process_group("gloo")
rank, ranks = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
layers = [nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 16), nn.Tanh(), nn.Linear(16, 4)]
cut = torch.tensor_split(torch.arange(len(layers)), ranks)[rank]
module = nn.Sequential(*(layers[each] for each in cut))
stage = PipelineStage(module, rank, ranks, torch.device("cpu"))
schedule = ScheduleGPipe(stage, n_microbatches=4, loss_fn=F.cross_entropy)
optimizer = torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9)
for step in range(3):
    x = torch.randn(24, 16, generator=torch.Generator().manual_seed(step))
    optimizer.zero_grad()
    losses = []
    inputs = (x,) if rank == 0 else ()
    targets = {"target": x[:, :4].argmax(1), "losses": losses} if rank == ranks - 1 else {}
    schedule.step(*inputs, **targets)
    optimizer.step()
dist.destroy_process_group()
