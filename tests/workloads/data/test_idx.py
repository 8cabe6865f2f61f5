"""IDX files that the tests write."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import numpy as np
import pytest
import torch

from polyrhythm.errors import DataError
from polyrhythm.workloads.data import idx_images, mnist, read_idx


def packed(array: np.ndarray, kind: int = 0x08) -> bytes:
    header = bytes([0, 0, kind, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    return header + array.astype(array.dtype.newbyteorder(">")).tobytes()


IMAGES = np.arange(5 * 4 * 3, dtype=np.uint8).reshape(5, 4, 3)
LABELS = np.array([3, 1, 4, 1, 5], dtype=np.uint8)


def write_mnist(folder: Path, part: str = "train", separator: str = "-", compress: bool = False) -> None:
    for name, array in ((f"{part}-images{separator}idx3-ubyte", IMAGES), (f"{part}-labels{separator}idx1-ubyte", LABELS)):
        if compress:
            (folder / f"{name}.gz").write_bytes(gzip.compress(packed(array)))
        else:
            (folder / name).write_bytes(packed(array))


@pytest.mark.parametrize(
    ("kind", "dtype"), [(0x08, np.uint8), (0x09, np.int8), (0x0B, np.int16), (0x0C, np.int32), (0x0D, np.float32), (0x0E, np.float64)]
)
def test_every_type_of_element_is_read(tmp_path: Path, kind: int, dtype: type) -> None:
    array = np.array([[1, 2, 3], [100, 101, 127]], dtype=dtype)
    (tmp_path / "file").write_bytes(packed(array, kind))
    read = read_idx(tmp_path / "file")
    assert read.dtype == torch.from_numpy(array).dtype
    assert torch.equal(read, torch.from_numpy(array))


@pytest.mark.parametrize("compress", [False, True])
@pytest.mark.parametrize("separator", ["-", "."])
@pytest.mark.parametrize("part", ["train", "t10k"])
def test_a_folder_of_mnist_is_read_as_published_or_unpacked(tmp_path: Path, part: str, separator: str, compress: bool) -> None:
    write_mnist(tmp_path, part, separator, compress)
    x, y = mnist(tmp_path, train=part == "train").tensors
    assert x.shape == (5, 1, 4, 3)
    torch.testing.assert_close(x[:, 0], torch.from_numpy(IMAGES).float() / 255)
    assert y.tolist() == LABELS.tolist()
    assert y.dtype == torch.int64


def test_bytes_stay_bytes_where_requested(tmp_path: Path) -> None:
    write_mnist(tmp_path)
    assert torch.equal(mnist(tmp_path, dtype=torch.uint8).tensors[0][:, 0], torch.from_numpy(IMAGES))
    with pytest.raises(DataError, match=r"torch\.int64"):
        mnist(tmp_path, dtype=torch.int64)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="train-images-idx3-ubyte"):
        mnist(tmp_path)
    with pytest.raises(DataError, match="cannot be read: No such file"):
        read_idx(tmp_path / "nothing")


@pytest.mark.parametrize("content", [b"", b"\0\0\x08", b"PK\x03\x04", b"\0\0\x07\x01\0\0\0\0", b"\0\x01\x08\x01\0\0\0\0"])
def test_other_files_are_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(DataError, match="not an IDX file"):
        read_idx(tmp_path / "file")


def test_files_cut_short_or_too_long_are_refused(tmp_path: Path) -> None:
    whole = packed(IMAGES)
    for content, words in ((whole[:7], "inside its header"), (whole[:-1], "60 bytes, but has 59"), (whole + b"x", "60 bytes, but has 61")):
        (tmp_path / "file").write_bytes(content)
        with pytest.raises(DataError, match=words):
            read_idx(tmp_path / "file")


def test_a_shape_beyond_all_memory_is_refused_without_taking_it(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"\0\0\x08\x04" + b"\xff" * 16)
    with pytest.raises(DataError, match="but has 0"):
        read_idx(tmp_path / "file")


def test_damaged_gzip_files_are_refused(tmp_path: Path) -> None:
    whole = gzip.compress(packed(IMAGES))
    damaged = (whole[:-3], whole[:20], whole[:12] + b"\xff\xff\xff" + whole[15:], whole[:-8] + b"12345678")
    for content in damaged:
        (tmp_path / "file.gz").write_bytes(content)
        with pytest.raises(DataError, match=r"file\.gz"):
            read_idx(tmp_path / "file.gz")


def test_files_that_do_not_belong_together_are_refused(tmp_path: Path) -> None:
    (tmp_path / "images").write_bytes(packed(IMAGES))
    (tmp_path / "labels").write_bytes(packed(LABELS))
    (tmp_path / "fewer").write_bytes(packed(LABELS[:4]))
    assert len(idx_images(tmp_path / "images", tmp_path / "labels")) == 5
    with pytest.raises(DataError, match=r"5 images and .* 4 labels"):
        idx_images(tmp_path / "images", tmp_path / "fewer")
    with pytest.raises(DataError, match="not images"):
        idx_images(tmp_path / "labels", tmp_path / "labels")
    with pytest.raises(DataError, match="not one class"):
        idx_images(tmp_path / "images", tmp_path / "images")


def test_classes_above_nine_are_refused(tmp_path: Path) -> None:
    write_mnist(tmp_path)
    (tmp_path / "train-labels-idx1-ubyte").write_bytes(packed(LABELS + 10))
    with pytest.raises(DataError, match="from 11 to 15"):
        mnist(tmp_path)
