"""A step of unmodified DistributedDataParallel through gloo and through polyrhythm, side by side.

    python benchmarks/torch_backend.py [--rounds 7] [--models mlp-21m,chars-gpt-5m,digits-cnn] [--json FILE]

Two processes with one thread each have both backends at once. A round takes some steps through the one, then some through the
other, then as many without any communication; the order within a round alternates, so that what else the machine does meets all
of them. The table has the medians over the rounds of the milliseconds a step took, of those that its process used
a core (in brackets: other work on the machine hardly changes these), and of the ratio of the first within a round.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing as processes
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, TensorDataset

import polyrhythm as pr
import polyrhythm.process_group

RANKS = 2
WARM_UP_STEPS = 4


class Begun(BaseException):
    """Ends a workload's training function when it has shown its model and its data."""


@dataclass
class Sitter:
    """Stands where a workload expects its worker, and remembers what it is given. The rank's own batches follow from the seed."""

    rank: int
    workers: int = RANKS
    device: str = "cpu"
    seed: int = 0
    model: nn.Module | None = None
    optimizer: torch.optim.Optimizer | None = None
    loader: DataLoader[tuple[Tensor, ...]] | None = None

    def attach(
        self, model: nn.Module, optimizer: torch.optim.Optimizer, name: str | None = None
    ) -> tuple[nn.Module, torch.optim.Optimizer]:
        self.model, self.optimizer = model, optimizer
        return model, optimizer

    def evaluate(self, function: Callable[[nn.Module], dict[str, float]]) -> None:
        """Nothing is evaluated: steps are timed."""

    def epochs(self, count: int) -> Iterable[int]:
        return range(count)

    def batches(self, dataset: Dataset[tuple[Tensor, ...]], batch_size: int = 32) -> Iterator[tuple[Tensor, ...]]:
        generator = torch.Generator().manual_seed(self.rank)
        self.loader = DataLoader(dataset, batch_size, shuffle=True, drop_last=True, generator=generator)
        raise Begun


def workload(name: str, rank: int) -> Sitter:
    """The model, the optimizer and the data of a bundled workload or of the perceptron."""
    torch.manual_seed(0)
    sitter = Sitter(rank)
    if name == "mlp-21m":
        widths = (1024, 2048, 4096, 2048, 1024, 10)
        layers = [layer for a, b in pairwise(widths) for layer in (nn.Linear(a, b), nn.ReLU())]
        model = nn.Sequential(*layers[:-1])
        sitter.attach(model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9))
        data = TensorDataset(torch.randn(512, widths[0]), torch.randint(0, widths[-1], (512,)))
        sitter.loader = DataLoader(data, 64)
        return sitter
    try:
        pr.load_workload(name, {})(sitter)
    except Begun:
        return sitter
    raise AssertionError("a workload always asks for batches")


def stepper(name: str, rank: int, wrap: Callable[[nn.Module], nn.Module]) -> Callable[[], None]:
    """Takes one training step. Batches come from memory, so that loading them is no part of what is compared."""
    sitter = workload(name, rank)
    assert sitter.model is not None
    assert sitter.optimizer is not None
    assert sitter.loader is not None
    model, optimizer = wrap(sitter.model), sitter.optimizer
    batches = [batch for batch, _ in zip(sitter.loader, range(16), strict=False)]
    taken = 0

    def step() -> None:
        nonlocal taken
        x, y = batches[taken % len(batches)]
        taken += 1
        optimizer.zero_grad()
        scores = model(x)
        loss = F.cross_entropy(scores.flatten(0, -2), y.flatten())
        loss.backward()
        optimizer.step()

    return step


def milliseconds(step: Callable[[], None], steps: int) -> tuple[float, float]:
    """Of a step, from when all ranks begin until all are through: on the clock, and of this process's use of a core."""
    dist.barrier()
    began, used = time.perf_counter(), time.process_time()
    for _ in range(steps):
        step()
    used = time.process_time() - used
    dist.barrier()
    return (time.perf_counter() - began) / steps * 1000, used / steps * 1000


def compare(name: str, rank: int, rounds: int) -> dict[str, list[tuple[float, float]]]:
    """Milliseconds a step in each round, on the clock and of a core, by who carried the gradients."""
    groups = {backend: dist.new_group(backend=backend) for backend in ("gloo", "polyrhythm")}
    steps = {
        backend: stepper(name, rank, lambda m, g=group: DistributedDataParallel(m, process_group=g)) for backend, group in groups.items()
    }
    steps["alone"] = stepper(name, rank, lambda model: model)
    once = max(milliseconds(step, WARM_UP_STEPS)[0] for step in steps.values())
    count = torch.tensor(max(2, int(1500 / once)))
    dist.broadcast(count, 0)
    taken: dict[str, list[tuple[float, float]]] = {who: [] for who in steps}
    for number in range(rounds):
        order = list(steps) if number % 2 else list(steps)[::-1]
        for who in order:
            taken[who].append(milliseconds(steps[who], int(count)))
    return taken


def run(rank: int, meeting: str, options: argparse.Namespace) -> None:
    """One of the two processes."""
    torch.set_num_threads(1)
    dist.init_process_group("polyrhythm", init_method=f"file://{meeting}", rank=rank, world_size=RANKS)
    found = {}
    for name in options.models.split(","):
        taken = compare(name, rank, options.rounds)
        ratios = [mine[0] / theirs[0] for mine, theirs in zip(taken["polyrhythm"], taken["gloo"], strict=True)]
        row = {f"{who}_ms": round(statistics.median(wall for wall, _ in values), 3) for who, values in taken.items()}
        row |= {f"{who}_core_ms": round(statistics.median(core for _, core in values), 3) for who, values in taken.items()}
        found[name] = row | {"ratio": round(statistics.median(ratios), 3), "ratios": [round(ratio, 3) for ratio in ratios]}
        if rank == 0:
            print(f"{name:14}", *(f"{who} {row[f'{who}_ms']:8.2f} ({row[f'{who}_core_ms']:7.2f})" for who in taken), end="  ")
            print(f"polyrhythm/gloo {found[name]['ratio']:.3f}", flush=True)
    if rank == 0:
        result = {"ranks": RANKS, "threads": 1, "rounds": options.rounds, "cores": os.cpu_count(), "load": os.getloadavg(), "models": found}
        text = json.dumps(result, indent=1)
        print(text)
        if options.json:
            options.json.write_text(text + "\n")
    dist.destroy_process_group()


def main() -> None:
    """Start both processes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--models", default="mlp-21m,chars-gpt-5m,digits-cnn")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        processes.spawn(run, (str(Path(folder) / "meeting"), options), RANKS)


if __name__ == "__main__":
    main()
