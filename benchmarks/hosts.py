"""What `fidelity.py` and `falling_line.py` have in common: hosts of the lab that train at a pace, each a process of a run."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import Dataset

import polyrhythm as pr
from polyrhythm.core.kernel.events import AnyEvent
from polyrhythm.core.kernel.job import Ending
from polyrhythm.core.kernel.location import unplaced
from polyrhythm.core.processes.rendezvous.join import enter
from polyrhythm.core.strategy.strategy_plan import StrategyPlan
from polyrhythm.core.training.work import Train, make_job
from polyrhythm.core.training.worker import Worker
from polyrhythm.hardware.network import Network
from polyrhythm.hardware.network_json import network_json

WORKERS = 3
BATCH_SIZE = 16
PACE = 0.025
"""Seconds that a step's gradients take: three hosts on two cores must not wait for these. They then need four tenths of them."""


def train(worker: Worker, model: nn.Module, optimizer: torch.optim.Optimizer, data: Dataset[object], steps: int, pace: float) -> None:
    """`steps` steps of an attached model on `data`, of which the gradients take at least `pace` seconds."""
    while True:
        for x, y in worker.batches(data, batch_size=BATCH_SIZE):
            began = time.perf_counter()
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            time.sleep(max(began + pace - time.perf_counter(), 0.0))
            optimizer.step()
            if worker.clock == steps:
                return


def take_part(function: Train, strategy: pr.Strategy, seed: int, record: Callable[[AnyEvent], None]) -> Ending:
    """One host's part in a run; its place is in the environment."""
    job = make_job(function, StrategyPlan.of(strategy, unplaced(WORKERS), seed))
    with enter(job, record) as joined:
        return joined.leave(job.program(joined.context))


def in_lab(program: str, arguments: Sequence[str], network: Network, file: Path) -> None:
    """Run `program` on each host of a lab that has this network; it is written to `file`."""
    file.write_text(network_json(network))
    lab = [sys.executable, "-m", "polyrhythm", "lab", "--quiet", "--hosts", str(WORKERS), "--network", str(file), "--"]
    subprocess.run([*lab, sys.executable, str(Path(program).resolve()), *arguments], check=True)
