"""Parquet files, of which each worker reads its rows; and rows that are kept in Arrow files."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as arrow
import pyarrow.parquet as parquet
import pytest
import torch
from torch.utils.data import DataLoader

import polyrhythm as pr
from polyrhythm.core.protocols.sharded import ShardRequest
from polyrhythm.core.simulator import Instant

ROWS = 1003


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two files of row groups of 100."""
    made = tmp_path_factory.mktemp("rows")
    for number, part in enumerate(np.array_split(np.arange(ROWS), 2)):
        table = arrow.table(
            {
                "id": part.astype(np.int32), "x": part / ROWS, "text": [str(k) for k in part], "pixels": [bytes([k % 256]) for k in part],
                "pair": [[k, 0.5] for k in part], "ragged": [list(range(k % 3)) for k in part],
            }
        )  # fmt: skip
        parquet.write_table(table, made / f"part-{number}.parquet", row_group_size=100)
    return made


def ids(source: Any, **request: Any) -> list[int]:
    return [k for rows in source.shard(ShardRequest(**request)) for k in rows["id"].tolist()]


@pytest.mark.parametrize("workers", [1, 2, 3, 7])
@pytest.mark.parametrize("shuffle", [False, True])
def test_every_row_is_in_one_shard_and_shards_are_equally_long(directory: Path, workers: int, shuffle: bool) -> None:
    source = pr.sources.ParquetFiles(directory, ["id"], shuffle)
    for epoch in range(2):
        shards = [ids(source, rank=rank, workers=workers, seed=1, epoch=epoch) for rank in range(workers)]
        assert sorted(k for shard in shards for k in shard) == list(range(ROWS))
        assert [len(shard) for shard in shards] == [ROWS // workers + (rank < ROWS % workers) for rank in range(workers)]
    if shuffle:
        assert ids(source, rank=0, workers=1, epoch=0) != ids(source, rank=0, workers=1, epoch=1)
    else:
        assert ids(source, rank=0, workers=1) == list(range(ROWS))


@pytest.mark.parametrize("skip", [1, 99, 250, 333])
def test_a_shard_can_be_entered_anywhere(directory: Path, skip: int) -> None:
    source = pr.sources.ParquetFiles(str(directory / "*.parquet"), ["id"])
    assert ids(source, rank=1, workers=3, seed=4, epoch=2)[skip:] == ids(source, rank=1, workers=3, seed=4, epoch=2, skip=skip)


def test_columns_are_tensors_of_the_types_of_models(directory: Path) -> None:
    rows: Any = next(iter(pr.sources.ParquetFiles(directory).shard(ShardRequest(0, 2))))
    assert {name: (rows[name].dtype, rows[name].shape[1:]) for name in ("id", "x", "pair")} == {
        "id": (torch.int64, ()), "x": (torch.float32, ()), "pair": (torch.float32, (2,)),
    }  # fmt: skip
    assert rows["text"][0] == str(rows["id"][0].item())
    assert rows["pixels"][0] == bytes([rows["id"][0] % 256])
    assert [len(each) for each in rows["ragged"]] == (rows["id"] % 3).tolist()


def train(worker: pr.Worker, source: Any, epochs: int = 2) -> None:
    model = torch.nn.Linear(2, 1)
    model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9))
    for _ in range(epochs):
        for batch in worker.batches(source, batch_size=50):
            optimizer.zero_grad()
            (model(batch["pair"] / ROWS)[:, 0] - batch["x"]).square().mean().backward()
            optimizer.step()


@pytest.mark.parametrize("processes", [None, 0, 2])
def test_a_run_resumed_within_an_epoch_ends_with_the_same_bits(directory: Path, tmp_path: Path, processes: int | None) -> None:
    source: Any = pr.sources.ParquetFiles(directory)
    if processes is not None:
        source = DataLoader(source, batch_size=50, num_workers=processes)
    program = partial(train, source=source)
    whole = pr.run(program, workers=2, seed=3, on=pr.Simulator(network=Instant()), checkpoints=pr.Checkpoints(tmp_path, every=7, keep=9))
    assert whole.summary.samples == 2 * ROWS
    for runtime in (pr.Simulator(network=Instant()), pr.Processes()):
        resumed = pr.run(program, workers=2, seed=3, on=runtime, checkpoints=pr.Checkpoints(resume=tmp_path / "step-00000014"))
        assert resumed.summary.weights_sha256 == whole.summary.weights_sha256


def test_what_cannot_be_read_is_named(directory: Path, tmp_path: Path) -> None:
    with pytest.raises(pr.PolyrhythmError, match=r"has no Parquet files: give a directory"):
        _ = pr.sources.ParquetFiles(tmp_path).samples
    with pytest.raises(pr.PolyrhythmError, match=r"has no column 'y': it has id, x, text"):
        ids(pr.sources.ParquetFiles(directory, ["id", "y"]), rank=0, workers=1)
    (tmp_path / "a.parquet").write_bytes(b"no")
    with pytest.raises(pr.PolyrhythmError, match=r"a.parquet cannot be read as Parquet"):
        _ = pr.sources.ParquetFiles(tmp_path).samples
    parquet.write_table(arrow.table({"id": [1, None, 3]}), tmp_path / "a.parquet")
    with pytest.raises(pr.PolyrhythmError, match=r"1 of 3 rows have no value in the column 'id'"):
        ids(pr.sources.ParquetFiles(tmp_path), rank=0, workers=1)


FORMS: dict[str, Any] = {
    "tuples": lambda numbers: [(k, k / 2, "a") for k in numbers],
    "numbers": lambda numbers: list(numbers),
    "dicts": lambda numbers: [{"id": k, "x": k / 2, "image": np.full((2, 3), k)} for k in numbers],
    "record batches": lambda numbers: [arrow.record_batch({"id": list(numbers)})],
    "tables": lambda numbers: [arrow.table({"id": list(numbers)})],
    "arrays": lambda numbers: [{"id": np.asarray(numbers), "image": np.zeros((len(numbers), 2, 2), np.uint8)}],
}


@pytest.mark.parametrize("early", [False, True])
@pytest.mark.parametrize("form", FORMS)
def test_an_iterator_that_is_kept_can_be_read_in_every_epoch(form: str, early: bool, tmp_path: Path) -> None:
    source = pr.sources.LocalShard(iter(FORMS[form](range(3000))), keep=tmp_path)
    if early:
        next(iter(source.shard(ShardRequest(0, 1))))
    passes = []
    for _ in range(2):
        batches = [source.batch(rows) for rows in source.shard(ShardRequest(0, 1))]
        kinds = {tuple(batch) if isinstance(batch, dict) else type(batch) for batch in batches}
        assert len(kinds) == 1
        numbers = [batch["id"] if isinstance(batch, dict) else batch if isinstance(batch, torch.Tensor) else batch[0] for batch in batches]
        passes.append(torch.cat(numbers).tolist())
    assert passes == [list(range(3000))] * 2
    assert list(tmp_path.iterdir()) == []
