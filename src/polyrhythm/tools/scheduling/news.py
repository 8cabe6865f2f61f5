"""Orders to the agent of a host, and its news, each one JSON object in a line."""

from __future__ import annotations

import msgspec


class StartWorker(msgspec.Struct, frozen=True, tag=True):
    """Start `command` with these variables too; what it prints is appended to the file `log`."""

    name: str
    command: list[str]
    environment: dict[str, str]
    log: str

    def __repr__(self) -> str:
        """A representation without the variables, one of which is the secret of the run."""
        return f"StartWorker({self.name!r}, {self.command!r})"


class StopWorker(msgspec.Struct, frozen=True, tag=True):
    """Ask a worker to end, and end it if it does not."""

    name: str


class BeatHeard(msgspec.Struct, frozen=True, tag=True):
    """The beat that the agent has `sent` then is heard, and the host is not taken for dead."""

    sent: float


class HostBeat(msgspec.Struct, frozen=True, tag=True):
    """The host is there; `broken` are the numbers of its GPUs that are not well, None where it has none that can be asked. It was `sent`
    at that time of the agent's own clock."""

    broken: list[int] | None = None
    sent: float = 0.0


class WorkerEnded(msgspec.Struct, frozen=True, tag=True):
    """A worker has ended, with this exit status; negative for a signal."""

    name: str
    status: int


AgentNews = HostBeat | WorkerEnded
AgentOrder = StartWorker | StopWorker | BeatHeard
LEASE_INTERVALS = 3.0
"""An agent ends, and its workers with it, so many intervals after it has sent the last beat that it knows to be heard: a host from which
no beat comes is dead half an interval later (Gray and Cheriton, 1989)."""
