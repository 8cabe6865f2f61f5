"""CIFAR-10 and CIFAR-100 in their binary version (not the pickled one, which may run any code when it is read).

Source: Krizhevsky, "Learning Multiple Layers of Features from Tiny Images", 2009, and the data sets' page: each record is one label byte
(CIFAR-100: a coarse and a fine one), then 3,072 bytes of 32 x 32 pixels, red, green, blue.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import TensorDataset

from polyrhythm.errors import DataError
from polyrhythm.workloads.data.images import as_images, check_classes

_PIXELS = 3 * 32 * 32
_FOLDERS = ("", "cifar-10-batches-bin", "cifar-100-binary")


def cifar10(folder: str | Path, train: bool = True, dtype: torch.dtype = torch.float32) -> TensorDataset:
    """Pairs of an image (3, 32, 32) and its class 0-9 (int64), from the folder of `cifar-10-binary.tar.gz`, unpacked.

    A floating `dtype` scales bytes to [0, 1]; torch.uint8 leaves them as they are, in a quarter of the memory.
    """
    names = [f"data_batch_{number}.bin" for number in range(1, 6)] if train else ["test_batch.bin"]
    records = torch.cat([_records(_find(Path(folder), name), labels=1) for name in names])
    return _dataset(records[:, 0], records[:, 1:], 10, folder, dtype)


def cifar100(folder: str | Path, train: bool = True, coarse: bool = False, dtype: torch.dtype = torch.float32) -> TensorDataset:
    """The same for `cifar-100-binary.tar.gz`: the class is one of 100, or of the 20 superclasses where `coarse`."""
    records = _records(_find(Path(folder), "train.bin" if train else "test.bin"), labels=2)
    classes, count = (records[:, 0], 20) if coarse else (records[:, 1], 100)
    return _dataset(classes, records[:, 2:], count, folder, dtype)


def _dataset(classes: Tensor, pixels: Tensor, count: int, folder: str | Path, dtype: torch.dtype) -> TensorDataset:
    check_classes(classes, count, str(folder))
    return TensorDataset(as_images(pixels.reshape(-1, 3, 32, 32), dtype), classes.long())


def _find(folder: Path, name: str) -> Path:
    for inner in _FOLDERS:
        if (folder / inner / name).is_file():
            return folder / inner / name
    if any((folder / inner / name).with_suffix("").is_file() for inner in (*_FOLDERS, "cifar-10-batches-py", "cifar-100-python")):
        raise DataError(f"{folder} holds the pickled version for Python, which is not read, for safety: download the binary version.")
    raise DataError(f"{folder} has no {name}: give the folder into which the binary version of the data set was unpacked.")


def _records(path: Path, labels: int) -> Tensor:
    content, size = np.fromfile(path, dtype=np.uint8), labels + _PIXELS
    if len(content) == 0 or len(content) % size:
        raise DataError(
            f"{path} has {len(content):,} bytes, which is not a number of records of {size:,}: it is another data set, or cut short."
        )
    return torch.from_numpy(content).view(-1, size)
