"""IDX files, plain or compressed with gzip: the format of MNIST and its relatives.

Source: LeCun, Cortes & Burges, "The MNIST database of handwritten digits": two zero bytes, a type, the number of
dimensions, each dimension as a big-endian 32-bit number, then the elements, big-endian, last index fastest.
"""

from __future__ import annotations

import gzip
import zlib
from math import prod
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import TensorDataset

from polyrhythm.errors import DataError
from polyrhythm.workloads.data.images import as_images, check_classes

_TYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
_GZIP = b"\x1f\x8b"


def read_idx(path: str | Path) -> Tensor:
    """The tensor in an IDX file, with the file's shape and type; raises DataError where the file is not one or is cut short."""
    content = _content(Path(path))
    if len(content) < 4 or content[:2] != b"\0\0" or content[2] not in _TYPES:
        raise DataError(f"{path} is not an IDX file: it begins with {content[:4].hex(' ') or 'nothing'}, not with 00 00 and a known type.")
    kind, dimensions = np.dtype(_TYPES[content[2]]), content[3]
    header = 4 + 4 * dimensions
    if len(content) < header:
        raise DataError(f"{path} ends inside its header of {header} bytes: copy or download it again.")
    shape = tuple(int.from_bytes(content[at : at + 4], "big") for at in range(4, header, 4))
    declared, found = prod(shape) * kind.itemsize, len(content) - header
    if declared != found:
        raise DataError(f"{path} declares {shape} elements, {declared:,} bytes, but has {found:,}: copy or download it again.")
    elements = np.frombuffer(content, kind, offset=header).reshape(shape)
    return torch.from_numpy(elements.astype(kind.newbyteorder("="), copy=True))


def idx_images(images: str | Path, labels: str | Path, dtype: torch.dtype = torch.float32) -> TensorDataset:
    """Pairs of an image (1, height, width) and its class (int64) from two IDX files.

    A floating `dtype` scales bytes to [0, 1]; torch.uint8 leaves them as they are, in a quarter of the memory.
    """
    pixels, classes = read_idx(images), read_idx(labels)
    if pixels.ndim != 3 or pixels.dtype != torch.uint8:
        raise DataError(f"{images} holds {tuple(pixels.shape)} elements of {pixels.dtype}, not images: bytes of (images, height, width).")
    if classes.ndim != 1 or classes.is_floating_point():
        raise DataError(f"{labels} holds {tuple(classes.shape)} elements of {classes.dtype}, not one class for each image.")
    if len(pixels) != len(classes):
        raise DataError(f"{images} has {len(pixels):,} images and {labels} {len(classes):,} labels: take two files of the same set.")
    return TensorDataset(as_images(pixels.unsqueeze(1), dtype), classes.long())


def mnist(folder: str | Path, train: bool = True, dtype: torch.dtype = torch.float32) -> TensorDataset:
    """MNIST, Fashion-MNIST or KMNIST from a folder with the four files as they are published, compressed or not."""
    part = "train" if train else "t10k"
    dataset = idx_images(_find(Path(folder), f"{part}-images", "idx3-ubyte"), _find(Path(folder), f"{part}-labels", "idx1-ubyte"), dtype)
    check_classes(dataset.tensors[1], 10, str(folder))
    return dataset


def _find(folder: Path, stem: str, kind: str) -> Path:
    names = [f"{stem}{separator}{kind}{packed}" for separator in "-." for packed in ("", ".gz")]
    for name in names:
        if (folder / name).is_file():
            return folder / name
    raise DataError(f"{folder} has no {names[0]} (nor {names[1]}): give the folder that holds the files of the data set.")


def _content(path: Path) -> bytes:
    try:
        content = path.read_bytes()
        return gzip.decompress(content) if content[:2] == _GZIP else content
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}.") from error
    except (EOFError, zlib.error) as error:
        raise DataError(f"{path} is a damaged gzip file ({error}): copy or download it again.") from error
