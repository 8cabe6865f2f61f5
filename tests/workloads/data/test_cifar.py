"""CIFAR files that the tests write."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from polyrhythm.errors import DataError
from polyrhythm.workloads.data import cifar10, cifar100

PIXELS = 3072


def records(labels: list[list[int]], seed: int = 0) -> np.ndarray:
    pixels = np.random.default_rng(seed).integers(0, 256, (len(labels), PIXELS), dtype=np.uint8)
    return np.concatenate([np.array(labels, dtype=np.uint8), pixels], axis=1)


def write_cifar10(folder: Path) -> np.ndarray:
    folder.mkdir(exist_ok=True)
    batches = [records([[number], [number + 4]], seed=number) for number in range(1, 6)]
    for number, batch in enumerate(batches, start=1):
        (folder / f"data_batch_{number}.bin").write_bytes(batch.tobytes())
    (folder / "test_batch.bin").write_bytes(records([[7]]).tobytes())
    return np.concatenate(batches)


@pytest.mark.parametrize("inner", ["", "cifar-10-batches-bin"])
def test_cifar10_is_read_in_the_order_of_its_files(tmp_path: Path, inner: str) -> None:
    written = write_cifar10(tmp_path / inner)
    x, y = cifar10(tmp_path).tensors
    assert y.tolist() == [1, 5, 2, 6, 3, 7, 4, 8, 5, 9]
    assert x.shape == (10, 3, 32, 32)
    assert x.dtype == torch.float32
    torch.testing.assert_close(x[3, 2, 1, 5].item(), written[3, 1 + 2 * 1024 + 32 + 5] / 255, rtol=1e-6, atol=0)
    assert cifar10(tmp_path, train=False).tensors[1].tolist() == [7]


def test_bytes_stay_bytes_where_requested(tmp_path: Path) -> None:
    written = write_cifar10(tmp_path)
    x = cifar10(tmp_path, dtype=torch.uint8).tensors[0]
    assert torch.equal(x.flatten(1), torch.from_numpy(written[:, 1:]))


def test_cifar100_has_fine_and_coarse_classes(tmp_path: Path) -> None:
    (tmp_path / "train.bin").write_bytes(records([[19, 99], [0, 3]]).tobytes())
    (tmp_path / "test.bin").write_bytes(records([[4, 30]]).tobytes())
    assert cifar100(tmp_path).tensors[1].tolist() == [99, 3]
    assert cifar100(tmp_path, coarse=True).tensors[1].tolist() == [19, 0]
    assert cifar100(tmp_path, train=False).tensors[1].tolist() == [30]


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no data_batch_1\.bin"):
        cifar10(tmp_path)
    with pytest.raises(DataError, match=r"no test\.bin"):
        cifar100(tmp_path, train=False)


def test_the_pickled_version_is_refused_with_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "cifar-10-batches-py").mkdir()
    (tmp_path / "cifar-10-batches-py" / "data_batch_1").write_bytes(b"\x80\x02")
    with pytest.raises(DataError, match="download the binary version"):
        cifar10(tmp_path)


@pytest.mark.parametrize("size", [0, 3072, 3074])
def test_files_of_a_wrong_size_are_refused(tmp_path: Path, size: int) -> None:
    write_cifar10(tmp_path)
    (tmp_path / "data_batch_3.bin").write_bytes(bytes(size))
    with pytest.raises(DataError, match=rf"data_batch_3\.bin has {size:,} bytes"):
        cifar10(tmp_path)


def test_classes_of_another_data_set_are_refused(tmp_path: Path) -> None:
    (tmp_path / "test_batch.bin").write_bytes(records([[10]]).tobytes())
    with pytest.raises(DataError, match="0 to 9"):
        cifar10(tmp_path, train=False)
    (tmp_path / "train.bin").write_bytes(records([[20, 99]]).tobytes())
    with pytest.raises(DataError, match="0 to 19"):
        cifar100(tmp_path, coarse=True)
