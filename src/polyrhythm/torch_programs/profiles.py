"""torch's profiler, which a process has one of: the rank that has begun records, and others record nothing meanwhile.

Its seconds are real ones, those of the computing here. Two profiles at once, of ranks that share a process, would end the process.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from polyrhythm.core.torch_private.distributed import profiler_called_by
from polyrhythm.torch_programs.ranks import Rank, current


class Empty:
    """The results of a rank that recorded nothing."""

    def __bool__(self) -> bool:
        return False

    def events(self) -> list[Any]:
        """None."""
        return []

    experimental_event_tree = events

    def trace_start_ns(self) -> int:
        """A time before all."""
        return 0

    def save(self, path: str) -> None:
        """Write the trace of nothing."""
        Path(path).write_text(json.dumps({"traceEvents": []}))


class Profiles:
    """Who has the profiler."""

    def __init__(self) -> None:
        self._rank: Rank | None = None
        self._end: Callable[[], Any] = Empty

    def begins(self, theirs: Callable[..., Any]) -> Callable[..., Any]:
        """`theirs` for threads that are no rank and for the rank that has it, or may have it."""

        def begin(*args: Any, **kwargs: Any) -> Any:
            rank = current()
            if rank is not None and self._rank is None:
                self._rank = rank
                rank.at_exit.append((self._give_back, (rank,), {}))
            if self._rank is rank:
                return theirs(*args, **kwargs)
            assert rank is not None
            assert self._rank is not None
            warnings.warn(
                f"Rank {rank.rank} records no profile: ranks in virtual time share torch's profiler, and rank {self._rank.rank} has it. "
                "Profile one rank at a time.",
                stacklevel=4,
            )
            return None

        return begin

    def ends(self, theirs: Callable[[], Any]) -> Callable[[], Any]:
        """The results of `theirs`, or nothing for a rank that has not had it."""

        def end() -> Any:
            if self._rank is not current():
                return Empty()
            self._rank = None
            return theirs()

        self._end = end
        return end

    def _give_back(self, rank: Rank) -> None:
        if self._rank is rank:
            self._end()


@contextmanager
def profiles_of_ranks() -> Iterator[None]:
    """Let ranks ask for it for the time of a run."""
    profiles = Profiles()
    begins = dict.fromkeys(("_prepare_profiler", "_enable_profiler"), profiles.begins)
    with profiler_called_by({**begins, "_disable_profiler": profiles.ends}):
        yield
