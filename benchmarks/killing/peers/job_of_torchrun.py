"""The job under torchrun and DistributedDataParallel: a restart of all workers from the newest checkpoint, which the first writes."""

from __future__ import annotations

import os
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import BatchSampler, DistributedSampler

sys.path.insert(0, str(Path(__file__).parents[2]))
from killing.job import BATCH, PACE, Model, data
from killing.records import StepRecord


def main(folder: str, samples: int, epochs: int, every: int) -> None:
    """Train for so many epochs, with a checkpoint after so many steps."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=timedelta(seconds=5))
    torch.manual_seed(0)
    model = Model()
    optimizer = model.optimizer()
    path = Path(folder, "checkpoint.pt")
    begin = restored(path, model, optimizer)
    wrapped = DistributedDataParallel(model)
    x, y, _ = data(samples)
    sampler = DistributedSampler(range(samples), shuffle=True)  # type: ignore[arg-type]
    batches = BatchSampler(sampler, BATCH, drop_last=False)
    record = StepRecord(folder)
    for epoch in range(begin // len(batches), epochs):
        sampler.set_epoch(epoch)
        for place, chosen in enumerate(batches):
            clock = epoch * len(batches) + place
            if clock < begin:
                continue
            record.begin(epoch, chosen)
            time.sleep(PACE)
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(wrapped(x[chosen]), y[chosen]).backward()
            optimizer.step()
            record.end()
            if dist.get_rank() == 0 and (clock + 1) % every == 0:
                state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "clock": clock + 1}
                torch.save(state, path.with_suffix(".new"))
                os.replace(path.with_suffix(".new"), path)
    dist.destroy_process_group()


def restored(path: Path, model: torch.nn.Module, optimizer: Any) -> int:
    """Continue from the checkpoint, if there is one: the number of steps that were taken."""
    if not path.exists():
        return 0
    state = torch.load(path)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    return int(state["clock"])


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
