"""A Spark DataFrame in files that every worker reads for itself: Spark's executors write them, and the driver sees no row."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from polyrhythm.sources.parquet_files import ParquetFiles

_WRITTEN = "_SUCCESS"
"""The file that Spark writes when a directory is whole."""


def spark_frame(
    frame: Any, directory: str | Path, *, columns: Sequence[str] | None = None, shuffle: bool = True, overwrite: bool = False
) -> ParquetFiles:
    """The rows of a Spark DataFrame as Parquet files in `directory`, which all hosts share; to be called where the run is started.

    They are written once: where `directory` holds a whole set of files, these are read, whatever they are of; `overwrite` writes anew.
    A worker can read its rows as often as there are epochs, and a resumed run begins where the other one was.
    """
    whole = (Path(directory) / _WRITTEN).exists()
    if overwrite or not whole:
        frame.write.mode("overwrite").parquet(Path(directory).absolute().as_uri())
    return ParquetFiles(directory, columns, shuffle)
