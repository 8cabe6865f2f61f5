"""Starts the ranks of a test in processes of their own and brings back what they return. Forked from a server that has imported torch."""

from __future__ import annotations

import multiprocessing
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

import polyrhythm.process_group  # noqa: F401

Body = Callable[[int, int], Any]
SECONDS = 60
_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["torch", "torch.distributed.fsdp", "torch.distributed.checkpoint", "torch_ranks"])


def run(body: Body, ranks: int, join: bool = True) -> list[Any]:
    """What `body(rank, ranks)` returned at each rank, or the exit status of a rank that left nothing. With `join` they have a group."""
    with tempfile.TemporaryDirectory() as folder:
        workers = [_context.Process(target=_rank, args=(body, rank, ranks, folder, join)) for rank in range(ranks)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join(SECONDS)
        hung = [worker for worker in workers if worker.is_alive()]
        for worker in hung:
            worker.kill()
            worker.join()
        assert not hung, f"{len(hung)} ranks did not end within {SECONDS} s"
        return [_left(Path(folder) / f"{rank}", worker.exitcode) for rank, worker in enumerate(workers)]


def meeting(folder: str) -> str:
    """Where the ranks of one run find each other."""
    return f"file://{folder}/meeting"


def _rank(body: Body, rank: int, ranks: int, folder: str, join: bool) -> None:
    torch.set_num_threads(1)
    if join:
        dist.init_process_group("polyrhythm", init_method=meeting(folder), rank=rank, world_size=ranks)
    result = body(rank, ranks) if join else body(rank, ranks, folder)  # type: ignore[call-arg]
    torch.save(result, Path(folder) / f"{rank}")
    if dist.is_initialized():
        dist.destroy_process_group()


def _left(file: Path, status: int | None) -> Any:
    return torch.load(file, weights_only=False) if file.exists() else status


def outcomes(laws: dict[str, Callable[[], None]]) -> dict[str, str]:
    """For each law, nothing or how it was broken."""
    found = {}
    for name, law in laws.items():
        try:
            law()
            found[name] = ""
        except Exception:
            found[name] = traceback.format_exc()
    return found
