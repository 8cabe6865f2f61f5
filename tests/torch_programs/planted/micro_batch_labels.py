"""GPipe where the last stage shuffles its own copy of the data, so that outputs meet the labels of other samples: DeepSpeed #5729."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe
from torch.utils.data import DataLoader, TensorDataset

dist.init_process_group("gloo")
rank, ranks = dist.get_rank(), dist.get_world_size()
x = torch.randn(72, 16, generator=torch.Generator().manual_seed(5))
loader = DataLoader(TensorDataset(x, x[:, :4].argmax(1)), 24, shuffle=True, generator=torch.Generator().manual_seed(rank))
torch.manual_seed(0)
layers = [nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 4)]
module = nn.Sequential(*(layers[each] for each in torch.tensor_split(torch.arange(len(layers)), ranks)[rank]))
stage = PipelineStage(module, rank, ranks, torch.device("cpu"))
schedule = ScheduleGPipe(stage, n_microbatches=4, loss_fn=F.cross_entropy)
optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
for inputs, targets in loader:
    optimizer.zero_grad()
    schedule.step(*((inputs,) if rank == 0 else ()), **({"target": targets} if rank == ranks - 1 else {}))
    optimizer.step()
dist.destroy_process_group()
