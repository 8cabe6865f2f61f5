"""Finds the file of a network or device that is given by a preset's name, a file, or a directory of `polyrhythm calibrate`."""

from __future__ import annotations

from pathlib import Path


def located(path_or_name: str | Path, file: str) -> Path | None:
    """The file, which is `file` in the directory where one was given; None for a preset's name."""
    path = Path(path_or_name)
    if not (isinstance(path_or_name, Path) or path.suffix or path.exists() or len(path.parts) > 1):
        return None
    return path / file if path.is_dir() else path
