"""A training that notes the ids of the rows it sees, and what its driver measures."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any

import numpy as np
import torch

ROWS = 1_000_000
EPOCHS = 2


def train(worker: Any, source: Any, directory: str, batch_size: int = 4096) -> int:
    """Train for two epochs; the ids of epoch e go to `directory`/e-RANK.npy. Returns how many batches there were."""
    torch.set_num_threads(1)
    model = torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
    model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.01))
    batches = 0
    for epoch in range(EPOCHS):
        ids = []
        for batch in worker.batches(source, batch_size=batch_size):
            assert (batch["id"].dtype, batch["x"].dtype) == (torch.int64, torch.float32)
            x = torch.stack([batch["x"], batch["x"] ** 2, batch["x"] ** 3, torch.ones_like(batch["x"])], dim=1)
            optimizer.zero_grad()
            (model(x)[:, 0] - batch["label"].float()).square().mean().backward()
            optimizer.step()
            ids.append(batch["id"].numpy())
            batches += 1
        np.save(Path(directory) / f"{epoch}-{worker.rank}.npy", np.concatenate(ids))
    worker.finish()
    return batches


def once(directory: str, rows: int = ROWS) -> list[bool]:
    """By epoch: whether every id below `rows` is in exactly one worker's file, once."""
    found = []
    for epoch in range(EPOCHS):
        ids = np.concatenate([np.load(path) for path in sorted(Path(directory).glob(f"{epoch}-*.npy"))])
        found.append(len(ids) == rows and bool((np.bincount(ids, minlength=rows) == 1).all()))
    return found


def resident() -> float:
    """Megabytes that this process has in memory."""
    [line] = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmRSS")]
    return int(line.split()[1]) / 1024


def place(rank: int, workers: int, port: int) -> None:
    """Make this process a rank of a run on this host."""
    os.environ |= {"RANK": str(rank), "WORLD_SIZE": str(workers), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port: int = listening.getsockname()[1]
        return port
