"""Data of workers that leave, are lost and join in the midst of an epoch: nothing is lost, nothing comes twice."""

from __future__ import annotations

import io
import tarfile
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils import data as tools

from polyrhythm.core.training.data.data import Data
from polyrhythm.core.training.data.data_request import DataRequest
from polyrhythm.sources import TarShards

from .changing_crew import Crew, Reads, samples
from .scenes import Counting
from .sharded_sources import Numbers, Uneven

N = 103


def batches(make: Callable[[], Any], size: int | None = 4, passes: int = 1) -> Reads:
    """A loop over `worker.batches`."""

    def reads(data: Data, port: Any, perform: Any) -> Iterator[Any]:
        mine = data.batches(DataRequest(make(), size, None), port, perform)
        for _ in range(passes):
            yield from mine

    return reads


def own_loader(processes: int) -> Reads:
    """A loop over the user's own loader, with `worker.sampler`."""

    def reads(data: Data, port: Any, perform: Any) -> Iterator[Any]:
        yield from tools.DataLoader(
            Plain(), batch_size=4, sampler=data.sampler(range(N), True, True), num_workers=processes, prefetch_factor=processes or None
        )

    return reads


def shard(data: Data, port: Any, perform: Any) -> Iterator[Any]:
    yield from ([k] for k in data.shard(range(N)))


class Plain(tools.Dataset[Any]):
    """The numbers."""

    def __len__(self) -> int:
        return N

    def __getitem__(self, index: int) -> int:
        return index


def tar(directory: Path) -> TarShards:
    """Eight files of samples with their numbers."""
    for file in range(8):
        with tarfile.open(directory / f"{file}.tar", "w") as archive:
            for k in range(file, N, 8):
                content = str(k).encode()
                member = tarfile.TarInfo(f"{k:04d}.cls")
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
    return TarShards(str(directory / "*.tar"), decode=lambda sample: int(sample["cls"]), buffer=5)


def _same(source: Any) -> Any:
    return source


def numbered(batch: Any) -> list[int]:
    return samples(batch["id"] if isinstance(batch, dict) else batch)


KINDS: dict[str, Callable[[Path], Reads]] = {
    "a data set": lambda path: batches(Plain),
    "tensors": lambda path: batches(lambda: (torch.arange(N),)),
    "a loader": lambda path: batches(lambda: tools.DataLoader(Plain(), batch_size=4, shuffle=True), None),
    "a loader with processes": lambda path: batches(lambda: tools.DataLoader(Plain(), batch_size=4, shuffle=True, num_workers=1), None),
    "a stream": lambda path: batches(lambda: Counting(N)),
    "an iterator": lambda path: batches(lambda: iter(range(N))),
    "shards of known length": lambda path: batches(lambda: Numbers(N)),
    "shards of unknown length": lambda path: batches(lambda: Uneven([40, 30, 20, 13])),
    "tar": lambda path: batches(partial(_same, tar(path))),
    "a sampler": lambda path: own_loader(0),
    "a sampler of a loader with processes": lambda path: own_loader(1),
    "a shard": lambda path: shard,
}


CHANGES: dict[str, Callable[[Crew], None]] = {
    "one leaves": lambda crew: crew.change(leave=["worker/1"]),
    "one is lost": lambda crew: crew.change(lost=["worker/0"]),
    "two join": lambda crew: crew.change(join=2),
    "one is lost in a step": lambda crew: (crew.draw(), crew.change(lost=["worker/2"])),  # type: ignore[dict-item]
    "one is lost in a step that others completed": lambda crew: (  # type: ignore[dict-item]
        crew.draw(),
        crew.all["worker/2"].step(),
        crew.change(lost=["worker/2"], completed=True),
    ),
    "one is lost in a step and one joins": lambda crew: (crew.draw(), crew.change(lost=["worker/3"], join=1)),  # type: ignore[dict-item]
    "one change after another": lambda crew: (  # type: ignore[dict-item]
        crew.change(leave=["worker/3"], join=1),
        crew.step(),
        crew.draw(),
        crew.change(lost=["worker/0"]),
        crew.change(join=1),
        crew.step(),
        crew.change(leave=["worker/1"]),
    ),
}


_AT_LEAST_ONCE = ("one is lost in a step and one joins", "one change after another")
"""Changes at which a worker that joins finds no sample for a step that others are in, where shards are at their end."""


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("kind", KINDS)
def test_every_sample_is_used_once_whatever_happens_in_an_epoch(kind: str, change: str, tmp_path: Path) -> None:
    crew = Crew(KINDS[kind](tmp_path), workers=4)
    crew.steps(2)
    CHANGES[change](crew)
    crew.finish()
    found = Counter(k for member in crew.all.values() for batch in member.used for k in numbered(batch))
    again = sum(found.values()) - len(found)
    assert again <= (4 if kind == "shards of unknown length" and change in _AT_LEAST_ONCE else 0)
    assert set(found) <= set(range(N))
    assert N - len(found) < len(crew.names)
