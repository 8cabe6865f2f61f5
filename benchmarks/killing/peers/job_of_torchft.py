"""The job under torchft, as one replica group: the others continue without one that is killed, and it continues from their weights.

The batch of a step follows from the number of the step, so that a step that was not committed is made again with the same samples.
"""

from __future__ import annotations

import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import BatchSampler
from torchft import DistributedDataParallel, DistributedSampler, Manager, Optimizer, ProcessGroupGloo

sys.path.insert(0, str(Path(__file__).parents[2]))
from killing.job import BATCH, PACE, Model, data
from killing.records import StepRecord


def main(folder: str, samples: int, epochs: int, rank: int, groups: int) -> None:
    """Train for so many epochs, as one of so many groups."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = Model()
    plain = model.optimizer()

    def load(state: Any) -> None:
        model.load_state_dict(state["model"])
        plain.load_state_dict(state["optimizer"])

    manager = Manager(
        ProcessGroupGloo(timeout=timedelta(seconds=2)),
        load,
        lambda: {"model": model.state_dict(), "optimizer": plain.state_dict()},
        min_replica_size=1,
        timeout=timedelta(seconds=5),
        quorum_timeout=timedelta(seconds=10),
        connect_timeout=timedelta(seconds=5),
        heartbeat_interval=timedelta(milliseconds=50),
        replica_id=f"group{rank}",
        init_sync=False,
    )
    wrapped, optimizer = DistributedDataParallel(manager, model), Optimizer(manager, plain)
    x, y, _ = data(samples)
    sampler = DistributedSampler(range(samples), rank, groups, 0, 1, shuffle=True)  # type: ignore[arg-type]
    batches: dict[int, list[list[int]]] = {}
    record, length = StepRecord(folder), -(-samples // groups // BATCH)
    while (clock := manager.current_step()) < epochs * length:
        epoch = clock // length
        if epoch not in batches:
            sampler.set_epoch(epoch)
            batches = {epoch: list(BatchSampler(sampler, BATCH, drop_last=False))}
        chosen = batches[epoch][clock % length]
        record.begin(epoch, chosen)
        time.sleep(PACE)
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(wrapped(x[chosen]), y[chosen]).backward()
        optimizer.step()
        if manager.current_step() == clock + 1 and manager.is_participating():
            record.end()
    manager.shutdown(wait=False)


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
