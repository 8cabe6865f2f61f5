"""Data sets of Hugging Face: with a length as they are, streams in shards."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import datasets
import pytest
import torch

import polyrhythm as pr
from polyrhythm.core.simulator import Instant

ROWS = 301


def made() -> Any:
    return datasets.Dataset.from_dict(
        {"id": list(range(ROWS)), "x": [k / ROWS for k in range(ROWS)], "text": [str(k) for k in range(ROWS)]}
    )


def seen(make: Any, workers: int, epochs: int = 2, **options: Any) -> tuple[list[list[int]], pr.Run]:
    """By epoch, the ids of all workers; and the run."""
    ids: list[list[int]] = [[] for _ in range(epochs)]

    def train(worker: pr.Worker) -> None:
        model = torch.nn.Linear(1, 1)
        model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.1))
        source = make()
        for epoch in range(epochs):
            for batch in worker.batches(source, batch_size=16):
                ids[epoch] += batch["id"].tolist()
                assert len(batch["text"]) == len(batch["id"])
                optimizer.zero_grad()
                model(batch["x"][:, None].float()).square().mean().backward()
                optimizer.step()

    return ids, pr.run(train, workers=workers, on=pr.Simulator(network=Instant()), seed=1, **options)


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_a_data_set_with_a_length_is_reshuffled_and_divided_as_it_is(workers: int) -> None:
    ids, _ = seen(made, workers)
    assert all(len(set(epoch)) == len(epoch) == ROWS - ROWS % workers for epoch in ids)
    assert ids[0] != ids[1]


@pytest.mark.parametrize("shards", [1, 2, 5])
@pytest.mark.parametrize("shuffled", [False, True])
@pytest.mark.parametrize("workers", [1, 2, 3])
def test_every_sample_of_a_stream_is_seen_once_an_epoch(workers: int, shards: int, shuffled: bool) -> None:
    def stream() -> Any:
        whole = made().to_iterable_dataset(num_shards=shards)
        return pr.sources.HuggingFaceStream(whole.shuffle(seed=3, buffer_size=50) if shuffled else whole)

    ids, _ = seen(stream, workers)
    assert sorted(ids[0]) == sorted(ids[1]) == list(range(ROWS))
    assert not shuffled or ids[0] != ids[1]


def test_a_stream_in_the_processes_of_a_loader_is_seen_once() -> None:
    def loader() -> Any:
        source: Any = pr.sources.HuggingFaceStream(made().to_iterable_dataset(num_shards=4))
        return torch.utils.data.DataLoader(source, batch_size=16, num_workers=2)

    ids, _ = seen(loader, 2)
    assert sorted(ids[0]) == sorted(ids[1]) == list(range(ROWS))


@pytest.mark.parametrize("make", [made, lambda: pr.sources.HuggingFaceStream(made().to_iterable_dataset(num_shards=4).shuffle(seed=3))])
def test_a_run_resumed_within_an_epoch_ends_with_the_same_bits(make: Any, tmp_path: Path) -> None:
    _, whole = seen(make, 2, checkpoints=pr.Checkpoints(tmp_path, every=4, keep=9))
    _, resumed = seen(make, 2, checkpoints=pr.Checkpoints(resume=tmp_path / "step-00000012"))
    assert resumed.summary.weights_sha256 == whole.summary.weights_sha256
