"""A transformer that FSDP2 shards layer by layer, with mixed precision off and gradients clipped."""

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard


def main() -> None:
    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    layers = [nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True) for _ in range(3)]
    model = nn.Sequential(nn.Embedding(64, 32), *layers, nn.Linear(32, 64))
    for layer in layers:
        fully_shard(layer)
    fully_shard(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for step in range(6):
        tokens = torch.randint(64, (8, 17), generator=torch.Generator().manual_seed(step)).chunk(ranks)[rank]
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    total = loss.detach()
    dist.all_reduce(total)
    if rank == 0:
        print(f"loss {total.item() / ranks:.8f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
