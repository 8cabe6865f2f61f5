"""A frozen DTensor convolution of images that are split on their width: pytorch #191926."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard, distribute_module, distribute_tensor


class Patches(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patch = nn.Conv2d(3, 8, 4, stride=4)
        self.head = nn.Linear(8, 4)

    def forward(self, images: Tensor) -> Tensor:
        x = self.patch(images)
        x = x.full_tensor() if isinstance(x, DTensor) else x
        return self.head(x.mean((2, 3)))


dist.init_process_group("gloo")
mesh = init_device_mesh("cpu", (dist.get_world_size(),))
torch.manual_seed(0)
model = Patches()
distribute_module(model.patch.requires_grad_(False), mesh)
optimizer = torch.optim.SGD(model.head.parameters(), lr=0.1)
for step in range(3):
    images = torch.randn(8, 3, 16, 16, generator=torch.Generator().manual_seed(step))
    targets = torch.arange(8) % 4
    optimizer.zero_grad()
    loss = F.cross_entropy(model(distribute_tensor(images, mesh, [Shard(3)])), targets)
    loss.backward()
    optimizer.step()
    print(step, loss.item())
dist.destroy_process_group()
