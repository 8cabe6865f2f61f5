"""Samples that are this worker's own already. (Those that are kept in a file are tested with pyarrow, among the engines.)"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from polyrhythm.core.simulator import Instant, Simulator
from polyrhythm.core.training.run import run
from polyrhythm.errors import DataError
from polyrhythm.sources import LocalShard


class Row(tuple[Any, ...]):
    """As a row of Spark's."""

    def asDict(self) -> dict[str, Any]:  # noqa: N802
        """By column."""
        return dict(zip(("number", "x"), self, strict=True))


FORMS: dict[str, Any] = {
    "numbers": lambda numbers: list(numbers),
    "tuples": lambda numbers: [(k, float(k)) for k in numbers],
    "dicts": lambda numbers: [{"number": k, "x": float(k)} for k in numbers],
    "rows": lambda numbers: [Row((k, float(k))) for k in numbers],
    "batches": lambda numbers: [{"number": np.asarray(part), "x": np.asarray(part) / 2} for part in np.array_split(numbers, 3)],
}


def number(batch: Any) -> torch.Tensor:
    if isinstance(batch, dict):
        assert batch["x"].dtype == torch.float32
        return batch["number"]
    return batch if isinstance(batch, torch.Tensor) else batch[0]


@pytest.mark.parametrize("form", FORMS)
def test_samples_of_every_form_are_seen_once_and_end_together(form: str) -> None:
    seen: list[int] = []
    sizes = set()

    def train(worker: Any) -> None:
        worker.attach(model := torch.nn.Linear(1, 1), torch.optim.SGD(model.parameters(), lr=0.01))
        own = LocalShard(iter(FORMS[form](range(20) if worker.rank else range(20, 57))))
        got = [number(batch).tolist() for batch in worker.batches(own, batch_size=6)]
        sizes.add(len(got))
        seen.extend(k for batch in got for k in batch)

    run(train, workers=2, on=Simulator(network=Instant()))
    assert sorted(seen) == list(range(57))
    assert len(sizes) == 1


def passes(data: Any) -> None:
    def train(worker: Any) -> None:
        worker.attach(model := torch.nn.Linear(1, 1), torch.optim.SGD(model.parameters(), lr=0.01))
        own = LocalShard(data)
        for _ in range(2):
            list(worker.batches(own, batch_size=6))

    run(train, workers=1, on=Simulator(network=Instant()))


def test_an_iterator_that_is_not_kept_has_one_epoch() -> None:
    with pytest.raises(DataError, match=r"all empty.*whether they can be read again"):
        passes(iter(range(20)))


def test_elements_of_two_kinds_are_refused() -> None:
    with pytest.raises(DataError, match=r"batch of columns follows a sample"):
        passes([{"a": 1}, {"a": np.arange(3)}])


def test_what_cannot_be_sent_is_named_when_it_would_be() -> None:
    def train(worker: Any) -> None:
        worker.attach(model := torch.nn.Linear(1, 1), torch.optim.SGD(model.parameters(), lr=0.01))
        list(worker.batches(LocalShard([(object(), 1)] * 3), batch_size=6))

    with pytest.raises(DataError, match=r"a object cannot: give samples of tensors, arrays, numbers, text and bytes, or drop_last=True"):
        run(train, workers=2, on=Simulator(network=Instant()))
