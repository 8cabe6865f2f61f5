"""A cache of measurements by a digest of all that decides them, so that no run is made twice, by this plan or a later one."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

import msgspec

from polyrhythm.core.atomic import replacing

Kept = TypeVar("Kept", bound=msgspec.Struct)


class MeasureCache:
    """Records in files of `directory`, or in memory alone where that is None. What cannot be read there is measured again."""

    def __init__(self, directory: Path | None) -> None:
        self.directory = directory
        self._held: dict[str, bytes] = {}

    def get(self, key: str, kind: type[Kept]) -> Kept | None:
        """The record of `key`, if there is one."""
        found = self._held.get(key)
        if found is None and self.directory is not None:
            try:
                found = self._file(key).read_bytes()
            except OSError:
                return None
        if found is None:
            return None
        try:
            return msgspec.json.decode(found, type=kind)
        except msgspec.MsgspecError:
            return None

    def put(self, key: str, record: msgspec.Struct) -> None:
        """Keep `record`; where it cannot be written, in memory alone."""
        self._held[key] = msgspec.json.encode(record)
        if self.directory is None:
            return
        try:
            self._file(key).parent.mkdir(parents=True, exist_ok=True)
            with replacing(self._file(key)) as path:
                path.write_bytes(self._held[key])
        except OSError:
            return

    def _file(self, key: str) -> Path:
        assert self.directory is not None
        return self.directory / key[:2] / f"{key}.json"
