"""Data sets that Hugging Face's `datasets` has saved on disk with `save_to_disk`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor
from torch.utils.data import Dataset

from polyrhythm.errors import DataError, unknown


class TableRows(Dataset[tuple[Tensor, ...]]):
    """The columns of a saved data set as a tuple of tensors per row, read from disk on access."""

    def __init__(self, table: Any, columns: Sequence[str]) -> None:
        self.columns = tuple(columns)
        self.table = table.with_format("torch", columns=list(columns))

    def __len__(self) -> int:
        return len(self.table)

    def __getitem__(self, index: int) -> tuple[Tensor, ...]:
        row = self.table[index]
        return tuple(row[column] for column in self.columns)

    def __getitems__(self, indices: Iterable[int]) -> list[tuple[Tensor, ...]]:
        """Several rows in one read, which DataLoader uses for a batch."""
        rows = self.table[list(indices)]
        return list(zip(*(rows[column] for column in self.columns), strict=True))


def saved_dataset(folder: str | Path, columns: Sequence[str], split: str | None = None) -> TableRows:
    """The `columns` of the data set in `folder`, in that order, from `split` where it has several.

    Raises DataError where `datasets` is not installed or the folder is not a saved data set; UnknownNameError for columns and splits.
    """
    try:
        from datasets import load_from_disk
    except ImportError as error:
        raise DataError(
            "Reading saved Hugging Face data sets needs the library datasets, which is not installed: run pip install datasets."
        ) from error
    if not columns:
        raise DataError('No columns were given: name those of the input and the label, for example columns=("image", "label").')
    try:
        table = load_from_disk(str(folder))
    except (FileNotFoundError, NotADirectoryError) as error:
        raise DataError(f"{folder} is not a data set saved with save_to_disk: {error}") from error
    table = _one_split(table, split, folder)
    for column in columns:
        if column not in table.column_names:
            raise unknown("column of the data set", column, table.column_names)
    return TableRows(table, columns)


def _one_split(table: Any, split: str | None, folder: str | Path) -> Any:
    splits: list[str] = sorted(table) if isinstance(table, dict) else []  # a DatasetDict is a dict, a Dataset is not
    if not splits and split is not None:
        raise DataError(f"{folder} holds one data set without splits, so it has no {split!r}: leave split out.")
    if not splits:
        return table
    if split is None:
        raise DataError(f"{folder} holds several splits ({', '.join(splits)}): choose one with split=, for example split={splits[0]!r}.")
    if split not in splits:
        raise unknown("split of the data set", split, splits)
    return table[split]
