"""Why a job waits, and why it was stopped: values with fields for programs, each with its sentence for people."""

from __future__ import annotations

from dataclasses import dataclass, field

from polyrhythm.core.units import show_seconds


@dataclass(frozen=True, slots=True)
class TooLarge:
    """The job does not fit into the whole cluster, even when nothing runs; `lacking` are the resources of which it wants too much, and
    `amounts` say how much of each that is, and how much there is."""

    workers: int
    room: int
    lacking: tuple[str, ...]
    amounts: tuple[str, ...] = field(default=(), compare=False)

    @property
    def sentence(self) -> str:
        """The reason in words."""
        wanted = f"{_workers(self.workers)} wanted, and the empty cluster has room for {self.room}"
        amounts = f": {_listed(self.amounts)}" if self.amounts else ""
        return f"can never run here: {wanted}; too few {_listed(self.lacking)}{amounts}"


@dataclass(frozen=True, slots=True)
class Shortage:
    """Too little is free: with more of `lacking`, and of nothing less than these, the job would fit.

    `level` is the domain that all of its workers must be in, and `room` how many of the wanted `workers` the best domain has room for.
    """

    workers: int
    level: str
    room: int
    lacking: tuple[str, ...]

    @property
    def sentence(self) -> str:
        """The reason in words."""
        wanted = f"needs {_workers(self.workers)} in one {self.level}, and the best has room for {self.room}"
        return f"{wanted}: too few free {_listed(self.lacking)}"


@dataclass(frozen=True, slots=True)
class OverLimit:
    """The queue may not use more of `kind`."""

    queue: str
    kind: str
    limit: int
    used: float
    wanted: float

    @property
    def sentence(self) -> str:
        """The reason in words."""
        return f"the queue {self.queue!r} uses {self.used:g} of at most {self.limit} {self.kind}, and the job wants {self.wanted:g} more"


@dataclass(frozen=True, slots=True)
class InLine:
    """An earlier job waits, and the policy lets nobody pass it."""

    behind: str

    @property
    def sentence(self) -> str:
        """The reason in words."""
        return f"waits behind {self.behind!r}, which nobody may pass"


@dataclass(frozen=True, slots=True)
class Reserved:
    """It would fit, but on what is reserved for an earlier job; `starts_in` is the expected seconds until then, if they are known."""

    behind: str
    starts_in: float | None

    @property
    def sentence(self) -> str:
        """The reason in words."""
        when = "" if self.starts_in is None else f" in about {show_seconds(self.starts_in)}"
        return f"would take what is reserved for {self.behind!r}, which is to start{when}"


@dataclass(frozen=True, slots=True)
class NotChosen:
    """The placement policy has not placed it yet, although it would fit; `why` are its words."""

    why: str

    @property
    def sentence(self) -> str:
        """The reason in words."""
        return self.why


@dataclass(frozen=True, slots=True)
class Preempted:
    """A job of the same queue with a higher priority has its place."""

    by: str

    @property
    def sentence(self) -> str:
        """The reason in words."""
        return f"makes way for {self.by!r}, which has a higher priority"


@dataclass(frozen=True, slots=True)
class Overtaken:
    """A job of the same queue and priority comes first now, such as one that has attained less."""

    by: str

    @property
    def sentence(self) -> str:
        """The reason in words."""
        return f"makes way for {self.by!r}, which comes before it by now"


@dataclass(frozen=True, slots=True)
class MadeRoom:
    """The job goes on with fewer workers, so that another need not wait."""

    by: str

    @property
    def sentence(self) -> str:
        """The reason in words."""
        return f"makes room for {self.by!r}, and goes on with fewer workers"


@dataclass(frozen=True, slots=True)
class Reclaimed:
    """Another queue uses less than its share, and takes back what this one had borrowed."""

    by: str
    queue: str

    @property
    def sentence(self) -> str:
        """The reason in words."""
        return f"makes way for {self.by!r}: the queue {self.queue!r} takes back its share"


@dataclass(frozen=True, slots=True)
class HostGone:
    """Hosts, or devices, of the job are lost."""

    hosts: tuple[str, ...]

    @property
    def sentence(self) -> str:
        """The reason in words."""
        return f"lost {_listed(self.hosts)}"


@dataclass(frozen=True, slots=True)
class PartialGang:
    """Fewer workers than the job can run with were found in place, as after a scheduler that ended between two of them."""

    workers: int
    least: int

    @property
    def sentence(self) -> str:
        """The reason in words."""
        return f"only {_workers(self.workers)} of at least {self.least} were in place, and the rest has no room"


@dataclass(frozen=True, slots=True)
class Grown:
    """Nobody waits, and there is room for more workers."""

    workers: int

    @property
    def sentence(self) -> str:
        """The reason in words."""
        return f"grows to {_workers(self.workers)}: nobody waits"


WaitReason = TooLarge | Shortage | OverLimit | InLine | Reserved | NotChosen
ChangeReason = Preempted | Overtaken | Reclaimed | MadeRoom | HostGone | PartialGang | Grown


def _workers(count: int) -> str:
    return "1 worker" if count == 1 else f"{count} workers"


def _listed(names: tuple[str, ...]) -> str:
    return " and ".join(names) if names else "of anything"
