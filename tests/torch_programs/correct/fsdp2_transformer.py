"""FSDP2 of a transformer with tied embeddings and dropout within attention."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.fsdp import fully_shard

dist.init_process_group("gloo")
rank, ranks = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)


class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(20, 16)
        self.layers = nn.ModuleList(nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, dropout=0.1) for _ in range(2))
        self.head = nn.Linear(16, 20, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, tokens):
        x = self.embed(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


m = M()
for layer in m.layers:
    fully_shard(layer)
fully_shard(m)
torch.manual_seed(rank + 5)
o = torch.optim.AdamW(m.parameters(), lr=0.01)
for s in range(3):
    t = torch.randint(0, 20, (8, 12), generator=torch.Generator().manual_seed(s)).chunk(ranks)[rank]
    o.zero_grad()
    F.cross_entropy(m(t).transpose(1, 2), t.roll(-1, 1)).backward()
    nn.utils.clip_grad_norm_(m.parameters(), 1.0)
    o.step()
