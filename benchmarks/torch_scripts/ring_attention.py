"""Attention over a sequence that is cut over the ranks: keys and values go around a ring (Liu et al., 2023), by batched sends."""

import torch
import torch.distributed as dist


def main() -> None:
    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    sequence = torch.randn(3, 64, 16)
    query, key, value = (each.chunk(ranks)[rank] for each in sequence)
    most, total, weighted = torch.full((len(query), 1), -torch.inf), torch.zeros(len(query), 1), torch.zeros_like(query)
    passed = torch.stack([key, value])
    for hop in range(ranks):
        received = torch.empty_like(passed)
        work = []
        if hop < ranks - 1:
            sends = [dist.P2POp(dist.isend, passed, (rank + 1) % ranks), dist.P2POp(dist.irecv, received, (rank - 1) % ranks)]
            work = dist.batch_isend_irecv(sends)
        scores = query @ passed[0].T / 4
        higher = torch.maximum(most, scores.max(1, keepdim=True).values)
        shrunk, weights = torch.exp(most - higher), torch.exp(scores - higher)
        most, total, weighted = higher, total * shrunk + weights.sum(1, keepdim=True), weighted * shrunk + weights @ passed[1]
        for each in work:
            each.wait()
        passed = received
    own = weighted / total
    expected = torch.nn.functional.scaled_dot_product_attention(*sequence.unsqueeze(1)).squeeze(0).chunk(ranks)[rank]
    error = (own - expected).abs().max()
    dist.all_reduce(error, op=dist.ReduceOp.MAX)
    norm = own.square().sum()
    dist.all_reduce(norm)
    if rank == 0:
        print(f"loss {norm.item():.8f} error {error.item():.1e}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
