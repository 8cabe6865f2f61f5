"""The place of a part in a run. `Replica` makes one for each of its parts."""

from __future__ import annotations

from dataclasses import dataclass

from polyrhythm.core.kernel.group import Group
from polyrhythm.core.kernel.job import WorkerContext
from polyrhythm.core.kernel.port import Port


@dataclass(frozen=True, slots=True)
class PartSeat:
    """The place of a part: its worker's context, a port with the part's topics (prefixed with `scope`), and all workers."""

    context: WorkerContext
    port: Port
    scope: str
    workers: Group
