"""The time of a training step: two ranks with one thread each, against one process alone and against the rivals, all in one run.

    python benchmarks/steps.py [--models mlp chars-gpt-5m digits-cnn] [--ways alone ddp …] [--rounds 5] [--json FILE] [--plot FILE]

Every way trains the same model on the same batches for some steps, in processes of its own; the ways take turns, `--rounds` times,
and each round's figure is the median of its steps. A ratio is the median of the rounds' ratios to `ddp` in the same round.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import json
import os
import socket
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import drawing
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn.functional as F
from torch import Tensor, nn

import polyrhythm as pr
from polyrhythm.core.kernel.events import Reported

RANKS = 2
WARM_UP = 5


@dataclass(frozen=True)
class Task:
    """A model, its batch for each rank, and how many steps to take."""

    build: Callable[[], nn.Module]
    batch: Callable[[torch.Generator], tuple[Tensor, Tensor]]
    optimizer: Callable[[nn.Module], torch.optim.Optimizer]
    steps: int


def perceptron() -> nn.Module:
    """20,990,986 parameters."""
    sizes = [1024, 2048, 4096, 2048, 1024]
    layers = [layer for a, b in itertools.pairwise(sizes) for layer in (nn.Linear(a, b), nn.ReLU())]
    return nn.Sequential(*layers, nn.Linear(1024, 10))


def gpt() -> nn.Module:
    """The model of chars-gpt-5m."""
    from polyrhythm.workloads.gpt import Gpt, GptSize

    return Gpt(GptSize(vocabulary=96, context=64, layers=6, width=256, heads=8))


def digits() -> nn.Module:
    """The model of digits-cnn."""
    from polyrhythm.workloads.digits import small_cnn

    return small_cnn()


def sgd(model: nn.Module) -> torch.optim.Optimizer:
    """SGD with momentum."""
    return torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)


def adamw(model: nn.Module) -> torch.optim.Optimizer:
    """AdamW."""
    return torch.optim.AdamW(model.parameters(), lr=1e-3)


def vectors(draw: torch.Generator) -> tuple[Tensor, Tensor]:
    """64 samples of 1024 numbers."""
    return torch.randn(64, 1024, generator=draw), torch.randint(0, 10, (64,), generator=draw)


def text(draw: torch.Generator) -> tuple[Tensor, Tensor]:
    """16 windows of 64 characters."""
    return torch.randint(0, 96, (16, 64), generator=draw), torch.randint(0, 96, (16, 64), generator=draw)


def images(draw: torch.Generator) -> tuple[Tensor, Tensor]:
    """16 digits of 8 x 8."""
    return torch.randn(16, 1, 8, 8, generator=draw), torch.randint(0, 10, (16,), generator=draw)


TASKS = {
    "mlp": Task(perceptron, vectors, sgd, 15),
    "chars-gpt-5m": Task(gpt, text, adamw, 15),
    "digits-cnn": Task(digits, images, sgd, 300),
}


def median_step(task: Task, rank: int, wrap: Callable[[nn.Module, torch.optim.Optimizer], Any]) -> float:
    """Train; the median time of a step in seconds. `wrap` gives the model and optimizer to use, and whatever else must be called."""
    torch.manual_seed(0)
    model = task.build()
    optimizer = task.optimizer(model)
    model, optimizer = wrap(model, optimizer)
    draw = torch.Generator().manual_seed(rank)
    x, y = task.batch(draw)
    times = []
    for _ in range(WARM_UP + task.steps):
        began = time.perf_counter()
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x).flatten(0, -2), y.flatten())
        loss.backward()
        optimizer.step()
        times.append(time.perf_counter() - began)
    return statistics.median(times[WARM_UP:])


def polyrhythm(name: str, system: str) -> float:
    """Ours: a strategy behind optimizer.step()."""

    def train(worker: pr.Worker) -> None:
        seconds = median_step(TASKS[name], worker.rank, lambda model, optimizer: _attach(worker, model, optimizer))
        worker.report(seconds=seconds)

    run = pr.run(train, workers=RANKS, strategy=system, on=pr.Processes(), seed=0)
    told = [event.metrics["seconds"] for event in run.outcome.events if isinstance(event, Reported)]
    assert len(told) == RANKS
    return statistics.median(told)  # over the ranks, as those of the others


def _attach(worker: pr.Worker, model: nn.Module, optimizer: torch.optim.Optimizer) -> Any:
    attached = worker.attach(model, optimizer)
    plain = optimizer.step

    def step() -> None:
        worker.count(1)
        plain()

    optimizer.step = step  # type: ignore[method-assign,assignment]
    return attached


def alone(name: str) -> float:
    """One process, no partner."""
    return _spawn(name, "alone", 1)


def _spawn(name: str, way: str, ranks: int) -> float:
    results = mp.get_context("spawn").SimpleQueue()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    mp.spawn(_rank, (name, way, ranks, port, results), nprocs=ranks)  # a rank that fails ends the others, and raises here
    return statistics.median(results.get() for _ in range(ranks))


def _rank(rank: int, name: str, way: str, ranks: int, port: int, results: Any) -> None:
    torch.set_num_threads(1)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(rank), WORLD_SIZE=str(ranks), LOCAL_RANK=str(rank))
    task = TASKS[name]

    def wrap(model: nn.Module, optimizer: torch.optim.Optimizer) -> tuple[nn.Module, Any]:
        if way == "deepspeed":
            return _deepspeed(model, optimizer)
        return DECENT[way](model, task) if way in DECENT else (WRAPS[way](model), optimizer)

    results.put(median_step(task, rank, wrap))
    if way in DECENT:
        dist.barrier()
        os._exit(0)  # its last exchange is under way, and destroy_process_group() would wait for it without end
    if dist.is_initialized():
        dist.destroy_process_group()


def _ddp(model: nn.Module, backend: str = "gloo", bucket_megabytes: int = 25) -> nn.parallel.DistributedDataParallel:
    dist.init_process_group(backend)
    return nn.parallel.DistributedDataParallel(model, bucket_cap_mb=bucket_megabytes)


def _fp16(model: nn.Module) -> nn.Module:
    from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook

    wrapped = _ddp(model)
    wrapped.register_comm_hook(None, fp16_compress_hook)
    return wrapped


def _powersgd(model: nn.Module) -> nn.Module:
    from torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import PowerSGDState, powerSGD_hook

    wrapped = _ddp(model, bucket_megabytes=1024)  # in one: with several gloo mixes up what the hook chains to their futures, and aborts
    wrapped.register_comm_hook(PowerSGDState(None, matrix_approximation_rank=1, start_powerSGD_iter=2), powerSGD_hook)
    return wrapped


def _on_ours(model: nn.Module) -> nn.Module:
    import polyrhythm.process_group  # noqa: F401

    return _ddp(model, "polyrhythm")


@dataclass(frozen=True)
class _Engine:
    """DeepSpeed's engine as an optimizer: gradients are exchanged by hooks of its model, and zeroed when it steps."""

    engine: Any

    def zero_grad(self) -> None:
        """Done by the last step."""

    def step(self) -> None:
        """The engine's own."""
        self.engine.step()


def _deepspeed(model: nn.Module, optimizer: torch.optim.Optimizer) -> tuple[nn.Module, Any]:
    os.environ["DS_ACCELERATOR"] = "cpu"
    import deepspeed

    deepspeed.init_distributed("gloo", verbose=False)
    # the size is for its reports only; without ZeRO it refuses loss.backward(), which the loop of all ways calls
    settings = {"train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 1}, "zero_allow_untested_optimizer": True}
    engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=settings)
    return engine, _Engine(engine)


class _InBackward:
    """The optimizer of a way whose hooks step and zero gradients during backward."""

    def zero_grad(self) -> None:
        """Done by the last step."""

    def step(self) -> None:
        """Done in backward."""


def _decent_dp(topology: str) -> Callable[[nn.Module, Task], tuple[nn.Module, Any]]:
    """Weights averaged over a topology, one step late, while the next gradient is computed (ICLR 2025)."""

    def wrap(model: nn.Module, task: Task) -> tuple[nn.Module, Any]:
        from decent_dp.ddp import DecentralizedDataParallel

        def optimizer(named: list[tuple[str, Tensor]]) -> torch.optim.Optimizer:
            return task.optimizer(nn.ParameterList([each for _, each in named]))

        dist.init_process_group("gloo")
        return DecentralizedDataParallel(model, optim_fn=optimizer, topology=topology), _InBackward()

    return wrap


DECENT = {"decent-dp-complete": _decent_dp("complete"), "decent-dp-ring": _decent_dp("ring")}
OURS = {"polyrhythm": "allreduce", **{system: system for system in ("gossipgrad", "decentralized", "adpsgd", "sgp")}}
"""Each with its system; the last ones exchange weights with neighbours, as decent-dp does."""
WRAPS: dict[str, Callable[[nn.Module], nn.Module]] = {
    "alone": lambda model: model,
    "ddp": _ddp,
    "ddp-fp16": _fp16,
    "ddp-powersgd": _powersgd,
    "ddp-on-polyrhythm": _on_ours,
}


def seconds_of(way: str, name: str) -> float:
    """The median step of one round."""
    if way in OURS:
        return polyrhythm(name, OURS[way])
    return _spawn(name, way, 1 if way == "alone" else RANKS)


def main() -> None:
    """Run and print a table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", default=list(TASKS))
    parser.add_argument("--ways", nargs="+", default=[*OURS, *WRAPS, *DECENT, "deepspeed"])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--plot", type=Path, help="where to draw the medians, as SVG")
    given = parser.parse_args()
    for library, ways in {"deepspeed": {"deepspeed"}, "decent_dp": set(DECENT)}.items():
        if ways & set(given.ways) and importlib.util.find_spec(library) is None:
            print(f"{library} is not installed here, so it is left out: run `make bench`, which installs the rivals in .venv-bench.")
            given.ways = [way for way in given.ways if way not in ways]
    found: dict[str, dict[str, list[float]]] = {}
    for name in given.models:
        rounds: dict[str, list[float]] = {way: [] for way in given.ways}
        for _ in range(given.rounds):
            for way in list(rounds):
                try:
                    rounds[way].append(seconds_of(way, name))
                except mp.ProcessException as problem:  # a rival that fails must not end the comparison
                    print(f"\n`{way}` fails on {name}: {str(problem).strip().splitlines()[-1]}", flush=True)
                    del rounds[way]
        found[name] = rounds
        print(f"\n| {name} | ms a step (least to greatest) | of ddp | of alone |\n|---|---|---|---|")
        for way, seconds in rounds.items():
            ratios = [
                statistics.median(a / b for a, b in zip(seconds, rounds[other], strict=True)) if other in rounds else float("nan")
                for other in ("ddp", "alone")
            ]
            spread = f"{min(seconds) * 1e3:.2f} to {max(seconds) * 1e3:.2f}"
            print(f"| `{way}` | {statistics.median(seconds) * 1e3:.2f} ({spread}) | {ratios[0]:.2f} | {ratios[1]:.2f} |", flush=True)
    if given.plot:
        medians = {name: {way: statistics.median(seconds) for way, seconds in ways.items()} for name, ways in found.items()}
        given.plot.write_text(drawing.bars(medians, {*OURS, "ddp-on-polyrhythm"}, "time of a step"))
    if given.json:
        given.json.write_text(json.dumps({"torch": torch.__version__, "ranks": RANKS, "seconds": found}, indent=2) + "\n")


if __name__ == "__main__":
    main()
