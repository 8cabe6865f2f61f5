"""Saved data sets, behind a stand-in for the `datasets` library with the few calls that are used of it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader

from polyrhythm.errors import DataError, UnknownNameError
from polyrhythm.workloads.data import saved_dataset


class Table:
    """Like `datasets.Dataset`: indexed by a number or by a list of numbers."""

    def __init__(self, content: dict[str, Any], shown: Sequence[str] = ()) -> None:
        self.content, self.shown, self.reads = content, list(shown), 0
        self.column_names = list(content)

    def with_format(self, kind: str, columns: list[str]) -> Table:
        assert kind == "torch"
        return Table(self.content, columns)

    def __len__(self) -> int:
        return len(next(iter(self.content.values())))

    def __getitem__(self, index: int | list[int]) -> dict[str, Any]:
        self.reads += 1
        return {name: torch.as_tensor(self.content[name])[index] for name in self.shown}


ROWS = {"label": [0, 1, 2, 3], "image": [[0.0, 0.5], [1.0, 1.5], [2.0, 2.5], [3.0, 3.5]], "note": [9, 9, 9, 9]}


@pytest.fixture
def saved(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What `load_from_disk` finds, by folder."""
    folders: dict[str, Any] = {"one": Table(ROWS), "several": {"train": Table(ROWS), "test": Table(ROWS)}}
    library = ModuleType("datasets")

    def load_from_disk(folder: str) -> Any:
        if folder not in folders:
            raise FileNotFoundError(f"Directory {folder} not found")
        return folders[folder]

    library.load_from_disk = load_from_disk  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "datasets", library)
    return folders


@pytest.mark.usefixtures("saved")
def test_rows_are_tuples_of_the_columns_in_the_order_requested() -> None:
    rows = saved_dataset("one", ("image", "label"))
    assert len(rows) == 4
    image, label = rows[2]
    assert image.tolist() == [2.0, 2.5]
    assert label.item() == 2


@pytest.mark.usefixtures("saved")
def test_a_loader_reads_a_batch_at_once() -> None:
    rows = saved_dataset("several", ("image", "label"), split="train")
    batches = list(DataLoader(rows, batch_size=2))
    assert [label.tolist() for _, label in batches] == [[0, 1], [2, 3]]
    assert rows.table.reads == 2


@pytest.mark.usefixtures("saved")
def test_what_is_not_there_is_refused_with_what_is() -> None:
    with pytest.raises(DataError, match=r"nowhere is not a data set saved with save_to_disk"):
        saved_dataset("nowhere", ("image",))
    with pytest.raises(UnknownNameError, match="'image'"):
        saved_dataset("one", ("imag",))
    with pytest.raises(DataError, match="No columns"):
        saved_dataset("one", ())
    with pytest.raises(DataError, match="without splits"):
        saved_dataset("one", ("image",), split="train")
    with pytest.raises(DataError, match=r"test, train.*split='test'"):
        saved_dataset("several", ("image",))
    with pytest.raises(UnknownNameError, match="'train'"):
        saved_dataset("several", ("image",), split="trian")


def test_without_the_library_the_remedy_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(DataError, match="pip install datasets"):
        saved_dataset("one", ("image",))
