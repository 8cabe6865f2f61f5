"""Files that a training function saves and loads, kept out of the user's directories."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch


@contextmanager
def redirected(note: Callable[[str], None]) -> Iterator[None]:
    """Have torch.save write to a temporary directory what is to go to a path, and torch.load read it from there; `note` is called with
    each.

    What was saved so may be renamed. What goes to an open file is written to it, and noted where the file has a name: one in memory has
    none.
    """
    save, load, replace, rename = torch.save, torch.load, os.replace, os.rename
    places: dict[str, Path] = {}

    with tempfile.TemporaryDirectory(prefix="polyrhythm-") as directory:

        def saving(obj: object, f: Any, *given: Any, **options: Any) -> None:
            if not _is_path(f):
                if isinstance(name := getattr(f, "name", None), str):
                    note(name)
                return save(obj, f, *given, **options)
            note(str(f))
            return save(obj, places.setdefault(_key(f), Path(directory, str(len(places)))), *given, **options)

        def loading(f: Any, *given: Any, **options: Any) -> Any:
            return load(places.get(_key(f), f) if _is_path(f) else f, *given, **options)

        def renaming(src: Any, dst: Any, **options: Any) -> None:
            if _is_path(src) and _key(src) in places:
                places[_key(dst)] = places.pop(_key(src))
            else:
                replace(src, dst, **options)

        torch.save, torch.load, os.replace, os.rename = saving, loading, renaming, renaming
        try:
            yield
        finally:
            torch.save, torch.load, os.replace, os.rename = save, load, replace, rename


def _is_path(file: object) -> bool:
    return isinstance(file, (str, bytes, os.PathLike))


def _key(path: Any) -> str:
    return os.path.realpath(os.fsdecode(path))
