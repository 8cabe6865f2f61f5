"""A script that joins a run under whatever started it: the arguments are what is done before, and the directory of checkpoints."""

import os
import signal
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn import functional as F

import polyrhythm as pr


def train(worker: pr.Worker, deed: str = "", directory: str = "") -> None:
    torch.manual_seed(0)
    x, y = torch.randn(96, 4), torch.randint(0, 3, (96,))
    model = torch.nn.Linear(4, 3)
    model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9))
    for _ in range(3):
        for inputs, labels in worker.batches((x, y), batch_size=8):
            optimizer.zero_grad()
            F.cross_entropy(model(inputs), labels).backward()
            optimizer.step()
            mark = Path(directory) / "killed"
            if deed == "kill" and worker.rank == 1 and worker.clock == 7 and not mark.exists():
                mark.touch()
                os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    deed, directory = sys.argv[1:3]
    if deed == "group":
        dist.init_process_group("gloo")
    if deed == "group of MPI":
        rank, size = int(os.environ["OMPI_COMM_WORLD_RANK"]), int(os.environ["OMPI_COMM_WORLD_SIZE"])
        dist.init_process_group("gloo", init_method=f"file://{directory}/group", rank=rank, world_size=size)
    checkpoint = directory if deed == "kill" else None
    worker = pr.join(
        "allreduce", seed=1, checkpoints=pr.Checkpoints(checkpoint, every=2 if checkpoint else None, resume=checkpoint is not None)
    )
    train(worker, deed, directory)
    run = worker.leave()
    if worker.rank == 0:
        print(f"sha {run.summary.weights_sha256} of {run.summary.workers}", flush=True)
    if dist.is_initialized():
        dist.barrier()
        dist.destroy_process_group()
