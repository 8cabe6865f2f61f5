"""Unmodified DistributedDataParallel, FSDP2 and distributed checkpoints on the torch backend."""

from __future__ import annotations

import torch.distributed as dist
import torch_ranks
import training_laws


def training(rank: int, ranks: int, folder: str) -> dict[str, str]:
    dist.init_process_group("polyrhythm", init_method=torch_ranks.meeting(folder), rank=rank, world_size=ranks)
    return torch_ranks.outcomes(training_laws.laws(folder))


def test_two_ranks_train_to_the_same_bits_as_through_gloo() -> None:
    found = torch_ranks.run(training, 2, join=False)
    assert len(found[0]) == 10
    for rank, outcomes in enumerate(found):
        for name, text in outcomes.items():
            assert not text, f"rank {rank}, {name}: {text}"
