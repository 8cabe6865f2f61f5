"""1F1B with two outer micro-batches a step, where the schedule divides the sum of both each time: torchtitan #1733."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B

dist.init_process_group("gloo")
rank, ranks = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
layers = [nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 4)]
module = nn.Sequential(*(layers[each] for each in torch.tensor_split(torch.arange(len(layers)), ranks)[rank]))
stage = PipelineStage(module, rank, ranks, torch.device("cpu"))
schedule = Schedule1F1B(stage, n_microbatches=4, loss_fn=F.cross_entropy)
optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
for step in range(3):
    x = torch.randn(24, 16, generator=torch.Generator().manual_seed(step))
    optimizer.zero_grad()
    for half in x.chunk(2):
        inputs = (half,) if rank == 0 else ()
        schedule.step(*inputs, **({"target": half[:, :4].argmax(1)} if rank == ranks - 1 else {}))
    for parameter in module.parameters():
        parameter.grad /= 2
    optimizer.step()
dist.destroy_process_group()
