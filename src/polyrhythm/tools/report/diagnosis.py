"""Why a run was slow: what its critical path consists of, what is out of the ordinary, and what each change should gain."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from statistics import median

import msgspec
from msgspec.structs import replace

from polyrhythm.core.kernel.events import Faulted, Merged
from polyrhythm.core.kernel.names import is_worker
from polyrhythm.core.records.outcome import Outcome
from polyrhythm.core.units import show_bytes, show_seconds
from polyrhythm.errors import CompositionError
from polyrhythm.tools.report.evidence import Evidence

_SLOW_WORKER = 1.25
_LOSSY = 0.002
_BUSY = 0.25
_NOTABLE = 0.02
"""A change is proposed if it should gain this part of the time."""
FAULTS = ("lost worker", "slower since", "slow worker", "slow link", "loss")
"""Kinds of what differs from its peers, or from before; others are conditions of the whole run."""
_MENDED = 1.5
"""A fault comes before a condition that gains up to so many times as much: one thing is mended sooner than a network is replaced."""
_ABOUT = 1.3
"""A factor is predicted within so many times."""
_REST = 0.05
"""And this part of what was waited for may remain: what is neither latency nor bandwidth, such as waiting for one's turn."""
_HUNDRED = 99.5
_TENFOLD = 0.9
"""What is gained of a part that becomes a tenth."""


class Cause(msgspec.Struct, frozen=True):
    """Something that made the run slow: `kind` in a word, where, what was found, what to do, and which part of the time it gains.

    `most` is what it might gain if all that was waited for is its doing, where the record does not tell. Without it the time should be
    between `low` and `high` times what it is.
    """

    kind: str
    where: str
    finding: str
    advice: str
    gain: float
    most: float = 0.0
    low: float = 0.0
    high: float = 1.0


class PathShare(msgspec.Struct, frozen=True):
    """The share of the critical path at one place, as a part of the whole: computing, sending to another, or waiting."""

    what: str
    where: str
    share: float


class Diagnosis(msgspec.Struct, frozen=True):
    """The diagnosis of a run of so many `seconds`: the path's parts, the longest first, and the causes, the one first that gains most.

    A fault of one worker or link comes before a condition of the whole run that gains little more. `network` is null for real processes;
    `remarks` say that the run did not end well, or what is amiss with its record.
    """

    system: str
    workers: int
    network: str | None
    seed: int
    seconds: float
    path: list[PathShare]
    causes: list[Cause]
    remarks: list[str] = []


def diagnose(outcome: Outcome) -> Diagnosis:
    """Find the causes. Real runs are read as well as virtual ones; with `--timeline` the path follows every message."""
    evidence = Evidence.of(outcome)
    causes = [_bounded(cause) for rule in RULES for cause in rule(evidence)]
    places: defaultdict[tuple[str, str], float] = defaultdict(float)
    for part in evidence.path:
        places[part.what, f"{part.actor} to {part.to}" if part.to else part.actor] += part.seconds / evidence.seconds
    path = [PathShare(what, where, share) for (what, where), share in sorted(places.items(), key=lambda each: -each[1])]
    found = sorted(
        (each for each in causes if each.gain >= _NOTABLE), key=lambda each: -each.gain * (_MENDED if each.kind in FAULTS else 1)
    )
    run = outcome.summary
    remarks = [*outcome.remarks, *([f"The run failed: {run.error}"] if run.error else [])]
    return Diagnosis(
        run.system, run.workers, run.network, run.seed, evidence.seconds if evidence.path else outcome.time, path, found, remarks
    )


def _bounded(cause: Cause) -> Cause:
    """The cause with the bounds of the factor by which the run's time should change without it."""
    factor = 1 - cause.gain
    return replace(cause, low=max(0.0, min(factor / _ABOUT, 1 - cause.most)), high=min(1.0, factor * _ABOUT + _REST * cause.most))


def united(outcomes: Sequence[Outcome]) -> Outcome:
    """The records of the workers of one run as one. Raises CompositionError for records of several systems."""
    if len(systems := {outcome.summary.system for outcome in outcomes}) > 1:
        raise CompositionError(f"Records of {', '.join(sorted(systems))} are not of one run: give the directories of one run's workers.")
    first = outcomes[0].summary
    steps = max(outcome.summary.steps for outcome in outcomes)
    lost = sorted({name for outcome in outcomes for name in outcome.summary.lost})
    events = [event for outcome in outcomes for event in outcome.events]
    return Outcome(replace(first, workers=max(first.workers, len(outcomes)), steps=steps, lost=lost), events, settings=outcomes[0].settings)


def _times(factor: float) -> str:
    """The factor in words: "2.5 times"."""
    return f"{factor:.2g} times" if factor < _HUNDRED else f"{factor:,.0f} times"


def _such_as(evidence: Evidence) -> str:
    """Systems that do not wait for each worker, other than the run's own."""
    return f"({', '.join(name for name in ('ssp', 'adpsgd', 'easgd') if name != evidence.outcome.summary.system)})"


def _lost_workers(evidence: Evidence) -> list[Cause]:
    gone = evidence.outcome.summary.lost or [
        event.actor for event in evidence.outcome.events if isinstance(event, Faulted) and "crash" in event.what
    ]
    at = {event.actor: event.time for event in evidence.outcome.events if isinstance(event, Faulted)}
    workers = max(2, evidence.outcome.summary.workers)
    return [
        Cause(
            "lost worker",
            name,
            f"{name} was lost" + (f" at {show_seconds(at[name])}" if name in at else "") + ", and its share of the samples with it",
            "find out why it ended, and let an engine start it again, or resume from a checkpoint",
            1 / workers,
        )
        for name in dict.fromkeys(gone)
    ]


def _changed_workers(evidence: Evidence) -> list[Cause]:
    causes = []
    for name, change in evidence.steps.changes().items():
        path = evidence.computing(name, change.since)
        causes.append(
            Cause(
                "slower since",
                name,
                f"since {show_seconds(change.since)} {name} computes {_times(change.factor)} as long: it has lost a core, or shares it",
                f"look at what else runs on its machine; a system that does not wait for each worker {_such_as(evidence)} loses less",
                max(path, _BUSY * (1 - 1 / change.factor)) * (1 - 1 / change.factor),
            )
        )
    return causes


def _slow_workers(evidence: Evidence) -> list[Cause]:
    times, changed = evidence.steps.medians(), evidence.steps.changes()
    if len(times) < 2:
        return []
    causes = []
    for name, seconds in times.items():
        usual = median(value for other, value in times.items() if other != name)
        if usual and seconds > _SLOW_WORKER * usual and name not in changed:
            path = evidence.computing(name)
            causes.append(
                Cause(
                    "slow worker",
                    name,
                    f"{name} computes {show_seconds(seconds)} a step, {_times(seconds / usual)} as long as the others",
                    f"replace it, leave it out, or choose a system that does not wait for each worker {_such_as(evidence)}",
                    path * (1 - usual / seconds),
                )
            )
    return causes


def _slow_links(evidence: Evidence) -> list[Cause]:
    causes = []
    for where, factor, members in evidence.connections.slow():
        path = evidence.sending(members)
        path = path or evidence.exchanging
        causes.append(
            Cause(
                "slow link",
                where,
                f"{where} carries a message {_times(factor)} as slowly as the other links",
                "mend the link, send less over it (compression, local steps), or choose a system that knows of sites (hierarchical)",
                path * (1 - 1 / factor),
                (path if evidence.followed else max(path, evidence.waited)) * (1 - 1 / factor),
            )
        )
    return causes


def _lossy_links(evidence: Evidence) -> list[Cause]:
    return [
        Cause(
            "loss",
            f"{each.actor} to {each.to}",
            f"{each.resent / each.nbytes:.2%} of the bytes from {each.actor} to {each.to} were lost and sent again",
            "find the line that loses packets; until then several lanes, or a congestion control that bears loss (bbr), help",
            min(0.9, evidence.exchanging * min(0.95, 20 * each.resent / each.nbytes)),
            0.95 * evidence.waited,
        )
        for each in evidence.connections.worst_of_each_sender(lambda each: each.resent / each.nbytes)
        if each.nbytes and each.resent / each.nbytes > _LOSSY
    ]


def _busy_servers(evidence: Evidence) -> list[Cause]:
    servers = {event.actor for event in evidence.outcome.events if isinstance(event, Merged) and not is_worker(event.actor)}
    merging = {name: sum(end - begin for begin, end in spans) / evidence.seconds for name, spans in evidence.merges.items()}
    causes = []
    for name in sorted({*servers, *(part.actor for part in evidence.path if not is_worker(part.actor))}):
        busy = max(merging.get(name, 0.0), evidence.waiting(name), evidence.unexplained / len(servers) if servers else 0.0)
        if busy > _BUSY:
            finding = f"{name} merges for {busy:.0%} of the time, and others wait for it"
            advice = "divide its keys over more servers, or choose a system without one (allreduce, adpsgd)"
            causes.append(
                Cause("busy server", name, finding, advice, busy / 2, 1 / 2)
            )  # it may merge all the time, also while others compute
    return causes


def _small_messages(evidence: Evidence) -> list[Cause]:
    latency = evidence.connections.latency_share() * evidence.exchanging
    messages, nbytes = evidence.outcome.summary.messages_sent, evidence.outcome.summary.bytes_sent
    steps = max(1, evidence.outcome.summary.steps)
    if latency < _BUSY or not messages:
        return []
    each = messages / steps / max(1, evidence.outcome.summary.workers)
    finding = f"each worker sends {each:.3g} messages of {show_bytes(nbytes / messages)} a step, and latency is {latency:.0%} of the time"
    advice = "send larger buckets, and exchange after several steps (local steps) or while computing"
    return [Cause("latency", "all links", finding, advice, latency * _TENFOLD, _most(evidence, latency))]


def _bandwidth(evidence: Evidence) -> list[Cause]:
    carrying = evidence.connections.busiest / evidence.seconds or 1.0
    part = (1 - evidence.connections.latency_share()) * min(evidence.exchanging, carrying)
    if part < _BUSY or not evidence.outcome.summary.bytes_sent:
        return []
    sent = show_bytes(evidence.outcome.summary.bytes_sent / max(1, evidence.outcome.summary.steps))
    finding = f"{sent} are sent a step, which takes {part:.0%} of the time"
    if not evidence.connections.timed:
        finding += "; how much of that is latency is not known, because the record does not count what each connection carried"
    advice = "compress what is sent, take several local steps between exchanges, or ask `polyrhythm plan` which system suits these links"
    return [Cause("bandwidth", "all links", finding, advice, part * _TENFOLD, _most(evidence, part))]


def _most(evidence: Evidence, part: float) -> float:
    """The largest gain from a condition of the links: all the waiting, where the record does not show which part the links caused."""
    return _TENFOLD * (part if evidence.followed else max(part, evidence.waited))


RULES: Sequence[Callable[[Evidence], list[Cause]]] = (
    _lost_workers,
    _changed_workers,
    _slow_workers,
    _slow_links,
    _lossy_links,
    _busy_servers,
    _small_messages,
    _bandwidth,
)
