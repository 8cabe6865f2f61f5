"""What the calibration and the agents on its hosts say to each other: one JSON object a line."""

from __future__ import annotations

import msgspec

from polyrhythm.hardware.machines import Device, Profile

BEAT_SECONDS = 5.0
"""The calibration says so often that it is still there."""
SILENCE_SECONDS = 60.0
"""An agent that hears nothing for so long ends."""


class StillThere(msgspec.Struct, frozen=True, tag=True):
    """The calibration is there, and has nothing to say."""


class TimeSteps(msgspec.Struct, frozen=True, tag=True):
    """Time steps of the JOB, whose file is `source` if it is given by a file; its `settings` are text.

    `strategy` is pickled, as it was composed where the calibration was called. Without one the machine is described by a speed and an
    overhead, where the JOB has a setting for its batch.
    """

    job: str
    source: str | None = None
    arguments: tuple[str, ...] = ()
    settings: dict[str, str] = {}
    strategy: bytes = b""
    workers: int = 1
    steps: int = 30
    seed: int = 0


class TimeWithin(msgspec.Struct, frozen=True, tag=True):
    """Measure what two processes of this host send each other."""


class OpenMeeting(msgspec.Struct, frozen=True, tag=True):
    """Listen for the agents of all hosts, so many `workers`, at a free port of the `address`; `own` is where the others reach this host."""

    workers: int
    address: str
    secret: str
    own: str = ""


class MeetOthers(msgspec.Struct, frozen=True, tag=True):
    """Measure the network with the agents of the other hosts, as the one of `rank`; they meet at `address`, where rank 0 is.

    `own` is where the others reach this host, if that is not what it finds itself.
    """

    rank: int
    workers: int
    address: str
    port: int
    secret: str
    own: str = ""
    within: tuple[float, float] | None = None


SurveyOrder = StillThere | TimeSteps | TimeWithin | OpenMeeting | MeetOthers


class HostHello(msgspec.Struct, frozen=True, tag=True):
    """An agent is there: the versions of its software, and memory in bytes.

    `address` is where ssh reached it, and `caller` from where; both are empty where it was started otherwise.
    """

    versions: dict[str, str]
    memory: float
    address: str = ""
    caller: str = ""


class StepsTimed(msgspec.Struct, frozen=True, tag=True):
    """The machine by its speed, or by its measured steps."""

    device: Device | None = None
    profile: Profile | None = None


class WithinTimed(msgspec.Struct, frozen=True, tag=True):
    """Seconds, and bytes a second, between two processes of the host."""

    latency: float
    bandwidth: float


class MeetingOpened(msgspec.Struct, frozen=True, tag=True):
    """The others can come, at this `port`, which this agent holds from now on."""

    port: int


class LinksCounted(msgspec.Struct, frozen=True, tag=True):
    """So many of the ordered pairs of hosts are measured."""

    done: int
    pairs: int


class LinksMeasured(msgspec.Struct, frozen=True, tag=True):
    """The network as a network file has it; empty from all but rank 0."""

    network: str = ""


class SurveyFailed(msgspec.Struct, frozen=True, tag=True):
    """What was ordered cannot be done, and why; `composed` where it was given wrongly."""

    sentence: str
    composed: bool = False


SurveyNews = HostHello | StepsTimed | WithinTimed | MeetingOpened | LinksCounted | LinksMeasured | SurveyFailed
