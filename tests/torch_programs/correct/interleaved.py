"""Interleaved 1F1B: two stages on each of two ranks, or four on one."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.pipelining import PipelineStage, ScheduleInterleaved1F1B

dist.init_process_group("gloo")
rank, ranks = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)


layers = [nn.Sequential(nn.Linear(16, 16), nn.Tanh()) for _ in range(4)]
n = 2 if ranks == 2 else 1
stages = [
    PipelineStage(layers[rank + ranks * k] if ranks == 2 else layers[k], rank + ranks * k if ranks == 2 else k, 4, torch.device("cpu"))
    for k in ((0, 1) if ranks == 2 else (0, 1, 2, 3))
]
sch = ScheduleInterleaved1F1B(stages, 4, loss_fn=F.mse_loss)
ps = [p for s in stages for p in s.submod.parameters()]
o = torch.optim.SGD(ps, lr=0.1)
for s in range(3):
    x = torch.randn(24, 16, generator=torch.Generator().manual_seed(s))
    o.zero_grad()
    sch.step(*((x,) if rank == 0 else ()), **({"target": x.sin()} if rank == ranks - 1 else {}))
    o.step()
