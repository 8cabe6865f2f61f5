"""Samples in tar files."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from polyrhythm.core.protocols.sharded import ShardRequest
from polyrhythm.core.simulator import Instant, Simulator
from polyrhythm.core.training.run import run
from polyrhythm.errors import DataError
from polyrhythm.sources import TarShards
from polyrhythm.sources.tar_shards import read_tar


def add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(data)
    archive.addfile(member, io.BytesIO(data))


def array(value: Any) -> bytes:
    held = io.BytesIO()
    np.save(held, value)
    return held.getvalue()


def write(directory: Path, files: int, samples: int) -> str:
    """`files` tar files of `samples` each, numbered throughout."""
    for file in range(files):
        with tarfile.open(directory / f"part-{file:03d}.tar", "w") as archive:
            for k in range(file * samples, (file + 1) * samples):
                add(archive, f"a/{k:06d}.x.npy", array(np.full(3, k, np.float64)))
                add(archive, f"a/{k:06d}.cls", str(k).encode())
    return str(directory / "part-*.tar")


def numbers(source: TarShards, workers: int, epoch: int = 0, seed: int = 1) -> list[list[int]]:
    """By worker: the numbers of its samples."""
    shards = [source.shard(ShardRequest(rank, workers, seed, epoch)) for rank in range(workers)]
    return [[sample["cls"] for rows in shard for sample in rows] for shard in shards]


@pytest.mark.parametrize("workers", [1, 2, 3, 7])
@pytest.mark.parametrize("shuffle", [False, True])
def test_every_sample_is_in_one_shard(tmp_path: Path, workers: int, shuffle: bool) -> None:
    source = TarShards(write(tmp_path, 5, 20), shuffle=shuffle, buffer=16)
    for epoch in (0, 1):
        assert sorted(k for shard in numbers(source, workers, epoch) for k in shard) == list(range(100))
    if shuffle:
        assert numbers(source, workers, 0) != numbers(source, workers, 1)
        assert numbers(source, workers, 0) == numbers(source, workers, 0)
    else:
        assert numbers(source, 1) == [list(range(100))]


def test_members_with_one_base_name_are_one_sample(tmp_path: Path) -> None:
    held = io.BytesIO()
    torch.save(torch.arange(2), held)
    path = tmp_path / "one.tar"
    with tarfile.open(path, "w") as archive:
        add(archive, "b/1.jpg", b"\xff\xd8")
        add(archive, "b/1.meta.json", json.dumps({"wide": 3}).encode())
        add(archive, "b/1.caption.txt", "Käse".encode())
        add(archive, "b/1.pt", held.getvalue())
        add(archive, "c/1.jpg", b"")
    assert [sorted(sample) for sample in read_tar(str(path))] == [["__key__", "caption.txt", "jpg", "meta.json", "pt"], ["__key__", "jpg"]]
    [[first, second]] = TarShards(str(path), shuffle=False).shard(ShardRequest(0, 1))
    assert first | {"pt": first["pt"].tolist()} == {
        "__key__": "b/1", "jpg": b"\xff\xd8", "meta.json": {"wide": 3}, "caption.txt": "Käse", "pt": [0, 1],
    }  # fmt: skip
    assert second == {"__key__": "c/1", "jpg": b""}


@pytest.mark.parametrize("workers", [2, 3])
def test_a_training_sees_every_sample_once_an_epoch_though_shards_differ_in_length(tmp_path: Path, workers: int) -> None:
    source = TarShards(write(tmp_path, 5, 21), decode=lambda sample: (torch.tensor(float(int(sample["cls"]))), int(sample["cls"])))
    seen: list[list[int]] = [[], []]

    def train(worker: Any) -> None:
        model = torch.nn.Linear(1, 1)
        model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.01))
        for epoch in range(2):
            for x, y in worker.batches(source, batch_size=8):
                assert (x.dtype, y.dtype) == (torch.float32, torch.int64)
                seen[epoch] += y.tolist()
                model(x[:, None].sin()).square().mean().backward()
                optimizer.step()

    assert run(train, workers=workers, on=Simulator(network=Instant()), seed=1).summary.samples == 210
    assert sorted(seen[0]) == sorted(seen[1]) == list(range(105))


def test_files_that_are_none_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"missing.*matches none: give tar files"):
        next(TarShards(str(tmp_path / "missing.tar")).shard(ShardRequest(0, 1)))
    broken = tmp_path / "broken.tar"
    write(tmp_path, 1, 30)
    broken.write_bytes((tmp_path / "part-000.tar").read_bytes()[:3000])
    with pytest.raises(DataError, match=r"broken.tar cannot be read as a tar file: .* Make it anew"):
        list(TarShards(str(broken), shuffle=False).shard(ShardRequest(0, 1)))
