"""FSDP2 and tensor parallelism: norms are reduced over tensor ranks in bfloat16 in spite of reduce_dtype: pytorch #190626."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, SequenceParallel, parallelize_module


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(20, 16)
        self.norm = nn.LayerNorm(16)
        self.up, self.down = nn.Linear(16, 32), nn.Linear(32, 16)
        self.head = nn.Linear(16, 20)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.down(F.gelu(self.up(self.norm(self.embed(tokens))))))


dist.init_process_group("gloo")
ranks = dist.get_world_size()
tensor = min(2, ranks)
mesh = init_device_mesh("cpu", (ranks // tensor, tensor), mesh_dim_names=("data", "tensor"))
part, parts = mesh["data"].get_local_rank(), ranks // tensor
torch.manual_seed(0)
model = Block()
plan = {
    "embed": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)),
    "norm": SequenceParallel(),
    "up": ColwiseParallel(input_layouts=Shard(1)),
    "down": RowwiseParallel(output_layouts=Shard(1)),
    "head": ColwiseParallel(input_layouts=Shard(1), output_layouts=Replicate()),
}
parallelize_module(model, mesh["tensor"], plan)
fully_shard(model, mesh=mesh["data"], mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
for step in range(3):
    tokens = torch.randint(0, 20, (4, 8), generator=torch.Generator().manual_seed(step)).chunk(parts)[part]
    optimizer.zero_grad()
    F.cross_entropy(model(tokens).flatten(0, 1).float(), tokens.roll(-1, 1).flatten()).backward()
    optimizer.step()
dist.destroy_process_group()
