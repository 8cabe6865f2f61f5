"""A transformer with tied embeddings, called by keyword, clipped."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
rank, ranks = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)


class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(20, 16)
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, dropout=0.0)
        self.head = nn.Linear(16, 20, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, tokens=None):
        return self.head(self.layer(self.embed(tokens)))


m = DistributedDataParallel(M())
o = torch.optim.AdamW(m.parameters(), lr=0.01)
sch = torch.optim.lr_scheduler.CosineAnnealingLR(o, 10)
for s in range(3):
    t = torch.randint(0, 20, (8, 12), generator=torch.Generator().manual_seed(s)).chunk(ranks)[rank]
    o.zero_grad()
    F.cross_entropy(m(tokens=t).transpose(1, 2), t.roll(-1, 1)).backward()
    nn.utils.clip_grad_norm_(m.parameters(), 1.0)
    o.step()
    sch.step()
