"""Runs one collective question over virtual workers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from polyrhythm.core.kernel.group import Group
from polyrhythm.core.kernel.job import Ending, Job, WorkerContext
from polyrhythm.core.kernel.message import Message
from polyrhythm.core.kernel.names import rank_of, worker
from polyrhythm.core.simulator.simulator import Simulator
from polyrhythm.hardware.network import Network

CollectiveRequest = Callable[[WorkerContext, Group], Any]

LATENCY, BANDWIDTH = 0.001, 1e8
NETWORK = Network.uniform("test", BANDWIDTH, LATENCY)


async def _no_service(port: Any, record: Any) -> None:
    raise NotImplementedError


def run_collective(
    workers: int, question: CollectiveRequest, seed: int = 0, shuffle_ties: int | None = None
) -> tuple[list[tuple[Tensor, ...]], Ending]:
    """The tensors that `question(context, group)` gave each worker, and how the run ended."""

    def program(context: WorkerContext) -> Message:
        group = Group.of_workers(workers, rank_of(context.port.name), seed)
        response = context.perform(question(context, group))
        return Message("response", tensors=(response,) if isinstance(response, Tensor) else tuple(response))

    job = Job(workers, 0, program, _no_service, lambda _: True, seed)
    ending = Simulator(network=NETWORK, shuffle_ties=shuffle_ties).execute(job, lambda _: None)
    return [ending.results[worker(rank)].tensors for rank in range(workers)], ending  # type: ignore[union-attr]


def values(workers: int, numel: int, seed: int = 0) -> list[Tensor]:
    """One vector a worker."""
    return list(torch.randn(workers, numel, generator=torch.Generator().manual_seed(seed)).unbind())
