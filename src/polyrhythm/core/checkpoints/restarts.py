"""Starts of a run that took no further step: a run that comes no further is ended, whatever starts it again.

The first worker counts them in a file next to the checkpoints, where launchers, clusters and shells that start a run again find it.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from polyrhythm.errors import NoProgressError

NAME = ".restarts"


class Starts(msgspec.Struct, frozen=True):
    """The number of starts from the checkpoint of `step` (0: from the beginning) of which none has taken a step."""

    step: int = 0
    count: int = 0


@dataclass(frozen=True, slots=True)
class RestartCount:
    """The count in `directory`; so many `restarts` may come no further than the start before them."""

    directory: Path
    restarts: int

    def started(self, step: int) -> None:
        """Count a start from `step`. Raises NoProgressError, and counts anew, if it was started again too often."""
        before = self._read()
        count = before.count + 1 if before.step == step else 1
        if count > self.restarts + 1:
            self.stepped()
            where = f"from its checkpoint of step {step}" if step else "from its beginning"
            raise NoProgressError(
                f"The run was started again {self.restarts} times {where}, and no start has taken a further step: see how the last "
                "one ended, remove the cause, and start it again."
            )
        written = self.directory / f"{NAME}.new"
        written.write_bytes(msgspec.json.encode(Starts(step, count)))
        os.replace(written, self.directory / NAME)

    def stepped(self) -> None:
        """The run has come further: forget the starts before."""
        (self.directory / NAME).unlink(missing_ok=True)

    def _read(self) -> Starts:
        with suppress(FileNotFoundError, msgspec.DecodeError):
            return msgspec.json.decode((self.directory / NAME).read_bytes(), type=Starts)
        return Starts()
