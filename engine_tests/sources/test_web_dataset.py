"""WebDataset's files by our reader and by its own pipeline; and a loader of torchdata."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import webdataset
from torchdata.stateful_dataloader import StatefulDataLoader

import polyrhythm as pr
from polyrhythm.core.simulator import Instant

ROWS = 230


@pytest.fixture(scope="module")
def pattern(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Tar files as WebDataset's own writer makes them: of 40 samples, and a last one of 30."""
    made = tmp_path_factory.mktemp("tars")
    with webdataset.ShardWriter(f"file:{made}/part-%03d.tar", maxcount=40, verbose=0) as writer:
        for k in range(ROWS):
            writer.write({"__key__": f"{k:06d}", "x.npy": np.full(2, k / ROWS), "cls": k})
    return str(made / "part-*.tar")


def seen(make: Any, workers: int) -> list[list[int]]:
    """By epoch, the numbers of all workers' samples."""
    numbers: list[list[int]] = [[], []]

    def train(worker: pr.Worker) -> None:
        model = torch.nn.Linear(2, 1)
        model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.1))
        source = make(worker)
        for epoch in range(2):
            for batch in worker.batches(source, batch_size=16):
                x, y = (batch["x.npy"], batch["cls"]) if isinstance(batch, dict) else batch
                assert (x.dtype, y.dtype) == (torch.float32, torch.int64)
                numbers[epoch] += y.tolist()
                optimizer.zero_grad()
                model(x).square().mean().backward()
                optimizer.step()

    pr.run(train, workers=workers, on=pr.Simulator(network=Instant()), seed=1)
    return [sorted(epoch) for epoch in numbers]


@pytest.mark.parametrize("workers", [1, 2, 3, 8])
def test_files_of_its_writer_are_read_once_an_epoch(pattern: str, workers: int) -> None:
    assert seen(lambda worker: pr.sources.TarShards(pattern), workers) == [list(range(ROWS))] * 2


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")  # it leaves its files open
@pytest.mark.parametrize("workers", [1, 2, 3])
def test_its_pipeline_that_divides_files_among_workers_is_a_local_shard(pattern: str, workers: int) -> None:
    files = sorted(str(path) for path in Path(pattern).parent.glob("*.tar"))

    def make(worker: pr.Worker) -> Any:
        own = webdataset.WebDataset(
            files, shardshuffle=False, nodesplitter=lambda source: islice(source, worker.rank, None, worker.workers)
        )
        return pr.sources.LocalShard(own.decode().to_tuple("x.npy", "cls"), repeats=True)

    assert seen(make, workers) == [list(range(ROWS))] * 2


@pytest.mark.filterwarnings("ignore:'set_vital' is deprecated")
def test_a_loader_that_keeps_its_own_position_is_refused() -> None:
    loader: Any = StatefulDataLoader(list(range(10)), batch_size=2)

    def train(worker: pr.Worker) -> None:
        model = torch.nn.Linear(2, 1)
        worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.1))
        list(worker.batches(loader))

    with pytest.raises(pr.PolyrhythmError, match=r"StatefulDataLoader is a subclass of DataLoader, whose own way of making batches"):
        pr.run(train, workers=2, on=pr.Simulator(network=Instant()))
