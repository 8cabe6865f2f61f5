"""Tar files of samples, as WebDataset has them: members with one base name are one sample."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from glob import glob
from typing import Any, ClassVar

import torch

from polyrhythm.core import rng
from polyrhythm.core.columns.columns import collated
from polyrhythm.core.protocols.sharded import Rows, ShardRequest
from polyrhythm.core.settings import checked
from polyrhythm.errors import DataError

Sample = dict[str, Any]
Decode = Callable[[Sample], Any]
_AT_ONCE = 64


def decoded(sample: Mapping[str, Any]) -> Sample:
    """`sample` with values for text (.txt), whole numbers (.cls), JSON (.json), and tensors of numpy's (.npy) and torch's (.pt) files.

    Other members stay bytes. Nothing is unpickled.
    """
    return {name: _VALUES.get(name.rpartition(".")[2], bytes)(data) if isinstance(data, bytes) else data for name, data in sample.items()}


def _array(data: bytes) -> torch.Tensor:
    import io

    import numpy as np

    return torch.from_numpy(np.load(io.BytesIO(data), allow_pickle=False))


def _tensor(data: bytes) -> torch.Tensor:
    import io

    tensor: torch.Tensor = torch.load(io.BytesIO(data), weights_only=True)
    return tensor


_VALUES: dict[str, Callable[[bytes], Any]] = {
    "txt": lambda data: data.decode(),
    "cls": int,
    "json": json.loads,
    "npy": _array,
    "pt": _tensor,
}


@dataclass(frozen=True)
@checked
class TarShards:
    """Samples in tar files (a pattern, or a list of paths), which are dealt out to the workers file by file.

    A sample is the members whose names are equal up to the first dot of the file's name; it is a dict of bytes by what follows, and
    "__key__" is the name. `decode` makes a sample of it; those of a batch are stacked as a DataLoader would.
    With `shuffle`, files come in a new order each epoch, and samples through a buffer of `buffer` samples. With fewer files than
    workers every worker reads all files, and keeps its samples.
    """

    paths: str | Sequence[str]
    decode: Decode = decoded
    shuffle: bool = True
    buffer: int = 1000
    drop_last: bool = False
    samples: ClassVar[None] = None
    repeats: ClassVar[bool] = True

    def shard(self, request: ShardRequest) -> Iterator[Rows]:
        """The samples of every P-th file."""
        files = self._files()
        order = rng.stream(request.seed, "files", request.epoch).permutation(len(files)).tolist() if self.shuffle else range(len(files))
        if len(files) >= request.workers:
            samples: Iterator[Sample] = (
                sample for number in list(order)[request.rank :: request.workers] for sample in read_tar(files[number])
            )
        else:
            everything = (sample for number in order for sample in read_tar(files[number]))
            samples = (sample for place, sample in enumerate(everything) if place % request.workers == request.rank)
        if self.shuffle and self.buffer > 1:
            drawing = rng.stream(request.seed, "buffer", request.epoch, request.rank)
            samples = _mixed(samples, self.buffer, drawing)
        rows: list[Any] = []
        for sample in samples:
            rows.append(self.decode(sample))
            if len(rows) == _AT_ONCE:
                yield rows
                rows = []
        if rows:
            yield rows

    def batch(self, rows: Rows) -> Any:
        """The samples of the rows, stacked into a batch."""
        return collated(rows)

    def _files(self) -> list[str]:
        given = [self.paths] if isinstance(self.paths, str) else list(self.paths)
        found: list[str] = []
        for pattern in given:
            matches = sorted(glob(str(pattern)))
            if not matches:
                raise DataError(f"{pattern} is no file and matches none: give tar files that this host can read.")
            found += matches
        return found


def read_tar(path: str) -> Iterator[Sample]:
    """The samples of one tar file, in its order. Raises DataError for a file that is none, or ends in the middle."""
    sample: Sample = {}
    try:
        with tarfile.open(path, "r|*") as members:
            for member in members:
                folder, _, name = member.name.rpartition("/")
                base, _, extension = name.partition(".")
                if not member.isfile() or not base:
                    continue
                key = f"{folder}/{base}" if folder else base
                if sample and sample["__key__"] != key:
                    yield sample
                    sample = {}
                content = members.extractfile(member)
                assert content is not None
                sample |= {"__key__": key, extension: content.read()}
    except (tarfile.TarError, OSError, EOFError) as problem:
        raise DataError(f"{path} cannot be read as a tar file: {problem}. Make it anew, or leave it out of the list.") from problem
    if sample:
        yield sample


def _mixed(samples: Iterator[Sample], size: int, drawing: Any) -> Iterator[Sample]:
    """`samples` in an order that is drawn from a buffer of `size`."""
    held: list[Sample] = []
    for sample in samples:
        held.append(sample)
        if len(held) == size:
            place = int(drawing.integers(size))
            held[place], held[-1] = held[-1], held[place]
            yield held.pop()
    yield from (held[place] for place in drawing.permutation(len(held)))
