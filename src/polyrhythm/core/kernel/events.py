"""Typed events: the record of a run, the same in both runtimes.

Times are seconds since the run began, virtual or real. An event is written when it happens, so that a failed run keeps
all that came before.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec


class Event(msgspec.Struct, tag=True, frozen=True, gc=False):
    """Something that happened at `time` to `actor`."""

    time: float
    actor: str


class Started(Event, frozen=True):
    """The actor began."""


class Computed(Event, frozen=True):
    """The user's code ran for `seconds`, until `time`."""

    seconds: float


class Waited(Event, frozen=True):
    """The worker was blocked in `optimizer.step()` or another method of the worker for `seconds`, until `time`."""

    seconds: float


class Sent(Event, frozen=True):
    """A message was sent (recorded on request only: there are millions)."""

    to: str
    topic: str
    nbytes: int


class Delivered(Event, frozen=True):
    """A message from `sender` arrived, `seconds` after it was sent, over `link` (recorded on request only; virtual time only).

    `link` names the two actors that it joins, and says whether it goes between sites.
    """

    sender: str
    topic: str
    nbytes: int
    seconds: float
    link: str


class Carried(Event, frozen=True):
    """The traffic of the actor's connection `to` another one, until the actor ended.

    `busy` are the seconds for which something was under way on it; 0 where that is not known, as between processes of one host. `latency`
    is the time that a byte takes to get there, in real time half of the least round trip. `resent` are the bytes that were sent again
    because they were lost.
    """

    to: str
    nbytes: int
    messages: int
    busy: float
    latency: float
    resent: int = 0


class Progressed(Event, frozen=True):
    """A `phase` in the exchange of `tensor` ended, which took `seconds` (recorded on request only).

    The phases are "negotiation" (ready here, not yet everywhere), "queue" (before others' exchanges have ended), "copy in" and "copy out"
    (to and from a buffer), and "exchange". Several parameters that go together are named by the first of them.
    """

    tensor: str
    phase: str
    seconds: float


class Communicated(Event, frozen=True):
    """A collective, a send or a receive of a group of torch.distributed ended, which took `seconds` since the rank issued it.

    `what` is "all_reduce SUM", of tensors in `of` such as "float32 [16]"; `axis` is the mesh axis of the group, or how torch describes it;
    `where` is the line of the program. The rank has sent `nbytes` for it, and its program has waited for `waited` of the seconds.
    """

    what: str
    of: str
    axis: str
    where: str
    nbytes: int
    seconds: float
    waited: float


class MemoryPeak(Event, frozen=True):
    """The bytes of tensors that the rank held at its peak, in all, by role ("parameter", "activation") and by module.

    Recorded on request at the end of a program of torch.distributed (virtual time only).
    """

    peak: int
    roles: dict[str, int]
    modules: dict[str, int]


class Stalled(Event, frozen=True):
    """A gradient that some workers had ready had not come at `missing` after `seconds`."""

    tensor: str
    missing: list[str]
    seconds: float


class Stepped(Event, frozen=True):
    """A step ended; `clock` counts the worker's steps, `samples` all that it has used."""

    clock: int
    samples: int
    bytes_sent: int


class Reported(Event, frozen=True):
    """A call of `worker.report`; `bytes_sent` is what all actors together had sent, as far as the runtime knew.

    In a process that joined a run, that is what this worker alone had sent.
    """

    clock: int
    metrics: dict[str, float]
    bytes_sent: int


class Evaluated(Event, frozen=True):
    """The metrics that `worker.evaluate` measured on the weights that were the result at `time`, and were not yet the result at `since`.

    `clock` and `bytes_sent` are those of `time`, as of `Reported`.
    """

    clock: int
    metrics: dict[str, float]
    bytes_sent: int
    since: float


class Merged(Event, frozen=True):
    """A server or worker merged a group of contributions into its weights; `staleness` counts, for each, the merges since it was computed.

    Workers are recorded where they merge those of others one by one. `seconds` is how long it took in real time; virtual time passes
    afterwards, where a profile has a figure for it.
    """

    version: int
    staleness: list[int]
    seconds: float = 0.0


class Agreed(Event, frozen=True):
    """The worker's rule for local steps took note of an exchange after step `clock`; `figures` are what it measured, by name.

    `primal_residual` is how far the worker's weights were from the consensus, in norms of that (ADMM).
    """

    clock: int
    figures: dict[str, float]


class Adjusted(Event, frozen=True):
    """A controller has set something at the worker after its step `clock`: for one `receiver`, or for all where that is empty."""

    clock: int
    setting: str
    receiver: str
    value: float


class Saved(Event, frozen=True):
    """A checkpoint after step `clock` of every worker is whole."""

    clock: int


class Overwritten(Event, frozen=True):
    """Workers have written `writes` rows of weights that they share without locks; `lost` of these writes were overwritten by others'.

    Counters next to the weights, to which they write in the same way, show how many. (Real processes only.)
    """

    writes: int
    lost: int


class Undelivered(Event, frozen=True):
    """Others sent this worker `sent` datagrams, and `arrived` came; of these, `superseded` were dropped, since newer ones had come.

    What others did to the weights of which this worker has the last word is `produced`, in norms of the sum, and `lost` is the norm of what
    was not applied, or was applied twice.
    """

    sent: int
    arrived: int
    superseded: int
    lost: float
    produced: float


class Faulted(Event, frozen=True):
    """A fault was injected, a bandwidth of the simulated network changed, or a process was lost."""

    what: str


class Suspected(Event, frozen=True):
    """The actor's process was found to be slow, held, stopped, writing to a disk or unreachable from `since` on, or alive again.

    In real processes only; `verdict` is a `Liveness` of `core.processes.runtime.beats`.
    """

    verdict: str
    since: float


class CrewChanged(Event, frozen=True):
    """The workers of the run are `members` from now on, the first of them the actor: some have `joined`, some have `left` or were lost."""

    epoch: int
    members: tuple[str, ...]
    joined: tuple[str, ...]
    left: tuple[str, ...]


class Restarted(Event, frozen=True):
    """The run was started again because the actor was lost; `reason` is the sentence that says so. (Engines only.)

    The events that follow begin at the newest checkpoint, or at the beginning if there is none.
    """

    reason: str


class Ended(Event, frozen=True):
    """The actor ended without an error; its totals."""

    bytes_sent: int
    messages_sent: int


AnyEvent = (
    Started
    | Computed
    | Waited
    | Sent
    | Delivered
    | Carried
    | Progressed
    | Communicated
    | MemoryPeak
    | Stalled
    | Stepped
    | Reported
    | Evaluated
    | Merged
    | Agreed
    | Undelivered
    | Adjusted
    | Overwritten
    | Saved
    | Faulted
    | Suspected
    | CrewChanged
    | Restarted
    | Ended
)
Recorder = Callable[[AnyEvent], None]


def unrecorded(event: AnyEvent) -> None:
    """A recorder that keeps nothing."""
