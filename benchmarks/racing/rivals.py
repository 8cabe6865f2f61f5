"""The rivals' ways, each as its own documentation has it, and one process alone."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from racing.task import Contestant, Seat, Way

ALONE = "alone"


def plain(optimizer: Any) -> Callable[[Tensor], None]:
    """An ordinary step."""

    def step(loss: Tensor) -> None:
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


def alone(model: nn.Module, optimizer: torch.optim.Optimizer, seat: Seat) -> Contestant:
    """One process, one thread, no network."""
    return Contestant(model, plain(optimizer), model)


def ddp(hook: Callable[[DistributedDataParallel], None] = lambda wrapped: None, bucket_megabytes: int | None = None) -> Way:
    """DistributedDataParallel over gloo, in buckets of its own choice unless given."""

    def start(model: nn.Module, optimizer: torch.optim.Optimizer, seat: Seat) -> Contestant:
        dist.init_process_group("gloo")
        wrapped = DistributedDataParallel(model, bucket_cap_mb=bucket_megabytes)
        hook(wrapped)
        return Contestant(wrapped, plain(optimizer), model)

    return start


def fp16(wrapped: DistributedDataParallel) -> None:
    """Half the bytes."""
    from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook

    wrapped.register_comm_hook(None, fp16_compress_hook)


def powersgd(rank: int) -> Callable[[DistributedDataParallel], None]:
    """Low-rank factors, from the third step on; in one bucket.

    With several its second reductions begin in whatever order the first ones end, which differs between workers, and gloo fails.
    """

    def hook(wrapped: DistributedDataParallel) -> None:
        from torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import PowerSGDState, powerSGD_hook

        wrapped.register_comm_hook(PowerSGDState(None, matrix_approximation_rank=rank, start_powerSGD_iter=2), powerSGD_hook)

    return hook


def local_sgd(period: int) -> Way:
    """Local steps, then one gloo all-reduce of all weights, as torch's PeriodicModelAverager; momentum stays with each worker."""

    def start(model: nn.Module, optimizer: torch.optim.Optimizer, seat: Seat) -> Contestant:
        dist.init_process_group("gloo")
        taken = 0
        train = plain(optimizer)

        def step(loss: Tensor) -> None:
            nonlocal taken
            train(loss)
            taken += 1
            if taken % period == 0:
                flat = parameters_to_vector(model.parameters()).detach()
                dist.all_reduce(flat)
                vector_to_parameters(flat / seat.workers, model.parameters())

        return Contestant(model, step, model, period)

    return start


def deepspeed(stage: int) -> Way:
    """DeepSpeed's engine over gloo, ZeRO stage `stage`."""

    def start(model: nn.Module, optimizer: torch.optim.Optimizer, seat: Seat) -> Contestant:
        os.environ["DS_ACCELERATOR"] = "cpu"
        import deepspeed as library

        library.init_distributed("gloo", verbose=False)
        settings = {
            "train_micro_batch_size_per_gpu": seat.task.batch,
            "gradient_accumulation_steps": 1,
            "zero_optimization": {"stage": stage},
            "zero_allow_untested_optimizer": True,
        }
        engine, *_ = library.initialize(model=model, optimizer=optimizer, config=settings)

        def step(loss: Tensor) -> None:
            engine.backward(loss)
            engine.step()

        return Contestant(engine, step, engine.module)

    return start


def hivemind(**options: Any) -> Way:
    """hivemind's optimizer, averaging between two judgements; matchmaking for 3 s, which its guide has for small local runs."""

    def start(model: nn.Module, optimizer: torch.optim.Optimizer, seat: Seat) -> Contestant:
        import hivemind as library

        rate, task = optimizer.param_groups[0]["lr"], seat.task
        here = f"/ip4/{os.environ.get('POLYRHYTHM_HOST_ADDR', '127.0.0.1')}/tcp/0"
        first = seat.rank == 0
        known = [] if first else seat.share("").split()
        dht = library.DHT(host_maddrs=[here], initial_peers=known, start=True)
        if first:
            seat.share(" ".join(map(str, dht.get_visible_maddrs())))
        together = library.Optimizer(
            dht=dht,
            run_id="race",
            target_batch_size=task.batch * task.workers * task.interval,
            batch_size_per_step=task.batch,
            params=model.parameters(),
            optimizer=lambda parameters: task.optimizer(parameters, rate),
            matchmaking_time=3.0,
            averaging_timeout=30.0,
            averager_opts={"request_timeout": 1.0},  # it warns of deadlocks where this is not below the matchmaking time
            **options,
        )
        return Contestant(model, plain(together), model)

    return start


def decent_dp(topology: str) -> Way:
    """Weights averaged over a topology one step late, while the next gradient is computed; its hooks step in backward (ICLR 2025)."""

    def start(model: nn.Module, optimizer: torch.optim.Optimizer, seat: Seat) -> Contestant:
        from decent_dp.ddp import DecentralizedDataParallel

        rate, task = optimizer.param_groups[0]["lr"], seat.task

        def rebuilt(named: list[tuple[str, Tensor]]) -> torch.optim.Optimizer:
            return task.optimizer([each for _, each in named], rate)  # type: ignore[misc]

        dist.init_process_group("gloo")
        wrapped = DecentralizedDataParallel(model, optim_fn=rebuilt, topology=topology, _local_world_size=1)

        def step(loss: Tensor) -> None:
            loss.backward()

        return Contestant(wrapped, step, model)

    return start


WAYS: dict[str, Way] = {
    ALONE: alone,
    "ddp": ddp(),
    "ddp-fp16": ddp(fp16),
    "ddp-powersgd-1": ddp(powersgd(1), 25),
    "ddp-powersgd-2": ddp(powersgd(2), 25),
    "local-sgd-8": local_sgd(8),
    "local-sgd-16": local_sgd(16),
    "local-sgd-32": local_sgd(32),
    "deepspeed-0": deepspeed(0),
    "deepspeed-1": deepspeed(1),
    "decent-dp-complete": decent_dp("complete"),
    "decent-dp-ring": decent_dp("ring"),
    "hivemind": hivemind(),
    "hivemind-local": hivemind(use_local_updates=True),
}
OWN_REPLICA = {"decent-dp-complete", "decent-dp-ring", "hivemind", "hivemind-local"}
LIBRARIES = {"deepspeed": "deepspeed", "hivemind": "hivemind", "decent": "decent_dp"}
"""What ways need that begin so."""


def missing(way: str) -> str | None:
    """Why a way cannot run here, as a sentence."""
    library = LIBRARIES.get(way.split("-")[0])
    if library is not None and importlib.util.find_spec(library) is None:
        return f"{way} needs {library}, which is not installed here: run `make bench`, which installs the rivals in .venv-bench."
    return None
