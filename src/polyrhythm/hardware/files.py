"""Networks and devices are given by a preset's name, by a file, or by a directory of `polyrhythm calibrate`."""

from __future__ import annotations

from pathlib import Path


def located(path_or_name: str | Path, file: str) -> Path | None:
    """The file that is meant, which is `file` where a directory was given; None where it was only a name."""
    path = Path(path_or_name)
    if not (isinstance(path_or_name, Path) or path.suffix or path.exists() or len(path.parts) > 1):
        return None
    return path / file if path.is_dir() else path
