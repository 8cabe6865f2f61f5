"""The job under Ray Train, with `FailureConfig`: a restart of all workers from the newest checkpoint that was reported."""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))


def train(given: dict[str, Any]) -> None:
    """One worker."""
    sys.path.insert(0, given["path"])
    import ray.train
    import torch
    from ray.train.torch import prepare_model
    from torch.utils.data import BatchSampler, DistributedSampler

    from killing.job import BATCH, PACE, Model, data
    from killing.records import StepRecord

    torch.set_num_threads(1)
    torch.manual_seed(0)
    model, begin = Model(), 0
    optimizer = model.optimizer()
    if (checkpoint := ray.train.get_checkpoint()) is not None:
        with checkpoint.as_directory() as folder:
            state = torch.load(Path(folder, "state.pt"))
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        begin = state["clock"]
    wrapped = prepare_model(model)
    x, y, _ = data(given["samples"])
    sampler = DistributedSampler(range(given["samples"]), shuffle=True)  # type: ignore[arg-type]
    batches = BatchSampler(sampler, BATCH, drop_last=False)
    record, rank = StepRecord(given["folder"]), ray.train.get_context().get_world_rank()
    for epoch in range(begin // len(batches), given["epochs"]):
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
            if (clock + 1) % given["every"]:
                continue
            with tempfile.TemporaryDirectory() as folder:
                if rank == 0:
                    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "clock": clock + 1}
                    torch.save(state, Path(folder, "state.pt"))
                ray.train.report({"clock": clock + 1}, checkpoint=ray.train.Checkpoint.from_directory(folder) if rank == 0 else None)


def main(folder: str, samples: int, epochs: int, every: int, workers: int) -> None:
    """Train for so many epochs, with a checkpoint after so many steps."""
    import ray
    from ray.train import CheckpointConfig, FailureConfig, RunConfig, ScalingConfig
    from ray.train.torch import TorchConfig, TorchTrainer

    ray.init(num_cpus=workers + 1, include_dashboard=False, object_store_memory=2**28)
    given = {"folder": folder, "samples": samples, "epochs": epochs, "every": every, "path": str(Path(__file__).parents[2])}
    TorchTrainer(
        train,
        train_loop_config=given,
        scaling_config=ScalingConfig(num_workers=workers),
        run_config=RunConfig(
            name="kills",
            storage_path=f"{folder}/ray",
            failure_config=FailureConfig(max_failures=-1),
            checkpoint_config=CheckpointConfig(num_to_keep=2),
        ),
        torch_config=TorchConfig(backend="gloo", timeout_s=5),
    ).fit()


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
