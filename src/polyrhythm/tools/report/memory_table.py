"""The memory that each rank of a program of torch.distributed held at its peak, by role."""

from __future__ import annotations

from collections.abc import Sequence

from polyrhythm.core.kernel.events import MemoryPeak
from polyrhythm.core.kernel.names import rank_of
from polyrhythm.core.units import show_bytes
from polyrhythm.tools.report.run_table import RunTable
from polyrhythm.tools.report.series import Series


def memory_tables(group: Sequence[Series], most: int) -> list[RunTable]:
    """A table for each run whose memory was counted, with at most so many ranks and modules."""
    found = []
    for one in group:
        peaks = sorted(
            (event for event in one.outcome.events if isinstance(event, MemoryPeak)), key=lambda event: (-event.peak, rank_of(event.actor))
        )
        if peaks:
            found.append(_table(one, peaks, most))
    return found


def _table(series: Series, peaks: Sequence[MemoryPeak], most: int) -> RunTable:
    shown = peaks[:most]
    roles = list(dict.fromkeys(role for event in shown for role in event.roles))
    rows = [[event.actor, show_bytes(event.peak), *(show_bytes(event.roles.get(role, 0)) for role in roles)] for event in shown]
    first = shown[0]
    modules = ", ".join(f"{module} {show_bytes(nbytes)}" for module, nbytes in list(first.modules.items())[:most])
    left = f"; {len(peaks) - len(shown)} more ranks held less" if len(peaks) > len(shown) else ""
    return RunTable(series, ["rank", "at its peak", *roles], rows, f"{first.actor} by module: {modules}{left}")
