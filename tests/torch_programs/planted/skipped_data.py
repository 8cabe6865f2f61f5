"""One rank drops its first batch, as after a resumption that only rank 0 has seen: one part of the data is never used."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

dist.init_process_group("gloo")
x = torch.randn(96, 16, generator=torch.Generator().manual_seed(5))
data = TensorDataset(x, x[:, :4].argmax(1))
loader = DataLoader(data, batch_size=8, sampler=DistributedSampler(data, shuffle=False))
torch.manual_seed(0)
model = DistributedDataParallel(nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
batches = iter(loader)
if dist.get_rank() == 1:
    next(batches)
for _ in range(3):
    inputs, targets = next(batches)
    optimizer.zero_grad()
    F.cross_entropy(model(inputs), targets).backward()
    optimizer.step()
dist.destroy_process_group()
