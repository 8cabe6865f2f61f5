"""Measures latency and bandwidth between hosts, and between processes of one host, as a `Network`.

    with enter(survey_job(workers), lambda event: None) as joined:
        network = network_between(joined.context, group, "ours")

A host's latency and rate towards another are alpha and beta of the usual model: a message of n bytes takes alpha + n beta,
with beta = 1 / rate.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import torch

from polyrhythm.core.kernel.group import Group
from polyrhythm.core.kernel.job import Job, WorkerContext
from polyrhythm.core.kernel.message import Message
from polyrhythm.core.kernel.names import FIRST, rank_of
from polyrhythm.core.kernel.port import Port
from polyrhythm.core.processes import Processes
from polyrhythm.core.protocols.algorithm import all_gather
from polyrhythm.errors import CompositionError
from polyrhythm.hardware.congestion import Bbr, Congestion, Fair
from polyrhythm.hardware.network import Network, Site
from polyrhythm.hardware.placement import Local, WithWorkers
from polyrhythm.tools.measuring.probes import SIPS, LinkEstimate, StreamMeasurement, drink, long_enough, ping, pong, pour, rate, share, sip

SECONDS = 0.4
"""How long a stream lasts at least."""
_FLOODS = 2
"""Streams of several pairs at once; the better counts."""

CONGESTION_CONTROL = Path("/proc/sys/net/ipv4/tcp_congestion_control")
"""The file in which Linux names the one of new connections, in this network namespace."""

_FAIR = Fair()
Rows = list[list[float]]
Follow = Callable[[int, int], None]
"""Told how many of how many ordered pairs of hosts are measured."""


def unfollowed(done: int, pairs: int) -> None:
    """The default for following a survey: nothing is shown."""


def network_between(
    context: WorkerContext,
    group: Group,
    name: str,
    local: Local | None = None,
    congestion: Congestion = _FAIR,
    follow: Follow = unfollowed,
) -> Network:
    """The network of the hosts of a run's workers, one on each; every worker must call it, and all get the same.

    Each ordered pair is measured while all others are idle: latency, jitter and capacity. Then each host sends to all at once, and
    takes from all at once: the most that it reached is its egress and its ingress. Servers are placed as joined runs group them,
    with workers. `congestion` is that of this host's connections (`congestion_here`); the network has it if all hosts do. `follow` is
    called when it is known how many pairs are done. Raises CompositionError where there is one worker only.
    """
    if group.size < 2:
        raise CompositionError("One process alone has no network: start one on each of two or more hosts, with RANK and WORLD_SIZE set.")
    survey = _LinkSurvey(context.port, group, SECONDS, congestion, follow)
    context.perform(survey.carry_out())
    names = [f"host-{rank}" for rank in range(group.size)]
    sites = [Site(each, survey.egress[rank], survey.ingress[rank]) for rank, each in enumerate(names)]
    pairs = [(a, b) for a in range(group.size) for b in range(group.size) if a != b]
    latency = {(names[a], names[b]): survey.latency[a][b] for a, b in pairs}
    capacity = {(names[a], names[b]): survey.rate[a][b] for a, b in pairs}
    jitter = {(names[a], names[b]): survey.jitter[a][b] for a, b in pairs}
    network = Network.joined(name, sites, latency, capacity, jitter)
    return replace(network, placement=WithWorkers(), local=local or Local(), congestion=congestion if survey.agree else Fair())


def local_between(seconds: float = SECONDS) -> Local:
    """Latency and bandwidth between two processes of this host, which are started for the measurement."""
    ending = Processes(cuda=False).execute(survey_job(2, seconds), lambda event: None)
    measured = ending.results[FIRST]
    assert measured is not None
    return Local(*measured.numbers)


def survey_job(workers: int, seconds: float = SECONDS) -> Job:
    """A job without servers, to be entered by processes that measure; as a program, worker 0's line to worker 1."""

    def program(context: WorkerContext) -> Message | None:
        line = context.perform(_line(context.port, Group.of_workers(workers, rank_of(context.port.name)), (0, 1), seconds))
        return None if line is None else Message("line", (line.latency, line.rate))

    return Job(workers, 0, program, _no_service, lambda name: True)


def congestion_here() -> Congestion:
    """The congestion control of connections of this host."""
    named = CONGESTION_CONTROL.read_text(encoding="ascii").strip() if CONGESTION_CONTROL.is_file() else ""
    return Bbr() if named == "bbr" else Fair()


async def _no_service(port: Port, record: object) -> None:
    """The job has no servers."""


async def _line(port: Port, group: Group, pair: tuple[int, int], seconds: float) -> LinkEstimate | None:
    """The line from the first of `pair` to the second, if this is the first."""
    source, target = pair
    if group.rank == source:
        latency, jitter = await ping(port, group.members[target])
        return LinkEstimate(latency, await rate(port, group.members[target], latency, seconds), jitter)
    if group.rank == target:
        await pong(port, group.members[source])
        await drink(port, group.members[source])
    return None


class _LinkSurvey:
    """One worker's part; afterwards each has all figures: `latency`, `rate`, `jitter` by `[from][to]`, `egress`, `ingress` by host."""

    def __init__(self, port: Port, group: Group, seconds: float, congestion: Congestion, follow: Follow) -> None:
        self.port = port
        self.group = group
        self.seconds = seconds
        self.congestion = congestion
        self.follow = follow
        self.latency: Rows
        self.rate: Rows
        self.jitter: Rows
        self.agree = False
        self.egress: list[float] = []
        self.ingress: list[float] = []
        self._meetings = 0

    async def carry_out(self) -> None:
        workers = range(self.group.size)
        habits = await self._agree((self.congestion.every, self.congestion.seconds))
        self.agree = all(habit == habits[0] for habit in habits)
        mine: dict[int, LinkEstimate] = {}
        pairs = [(a, b) for a in workers for b in workers if a != b]
        for done, (source, target) in enumerate(pairs):
            await self._agree((0.0,))  # those before are done
            self.follow(done, len(pairs))
            line = await _line(self.port, self.group, (source, target), self.seconds)
            if line is not None:
                mine[target] = line
        self.latency = await self._agree([mine[to].latency if to in mine else 0.0 for to in workers])
        self.rate = await self._agree([mine[to].rate if to in mine else 0.0 for to in workers])
        self.jitter = await self._agree([mine[to].jitter if to in mine else 0.0 for to in workers])
        self.follow(len(pairs), len(pairs))
        for host in workers:
            others = [each for each in workers if each != host]
            spread = max([await self._flood([host], others) for _ in range(_FLOODS)])
            gathered = max([await self._flood(others, [host]) for _ in range(_FLOODS)])
            self.egress.append(max(spread, *self.rate[host]))
            self.ingress.append(max(gathered, *(self.rate[each][host] for each in others)))

    async def _flood(self, sources: Sequence[int], targets: Sequence[int]) -> float:
        """The bytes per second that pass when all of `sources` send to all of `targets` at once."""
        rank = self.group.rank
        await self._agree((0.0,))
        sent, moments = (0.0, 0.0), [0.0]
        if rank in sources:
            seconds = max(long_enough(self.latency[source][target], self.seconds) for source in sources for target in targets)
            lines = {self.group.members[to]: LinkEstimate(self.latency[rank][to], self.rate[rank][to]) for to in targets}
            stream = await pour(
                self.port,
                {peer: share(line, seconds) for peer, line in lines.items()},
                SIPS,
                {peer: 2 * line.latency for peer, line in lines.items()},
            )
            sent = (float(stream.nbytes), stream.span)
        elif rank in targets:
            moments.clear()
            for source in sources:  # concurrently, because each notes the arrivals of its messages
                await self.port.spawn(f"sip of {source}", self._sip(source, moments))
        await self._agree((0.0,))
        rows = await self._agree((*sent, max(moments) - min(moments)))
        return StreamMeasurement(0.0, int(sum(nbytes for nbytes, _, _ in rows)), max(max(spans) for _, *spans in rows)).rate

    async def _sip(self, source: int, moments: list[float]) -> None:
        moments += [moment - self.latency[source][self.group.rank] for moment in await sip(self.port, self.group.members[source], SIPS)]

    async def _agree(self, row: Sequence[float]) -> Rows:
        """The rows of all workers, by rank; returns when all have called it."""
        self._meetings += 1
        rows = await all_gather(self.port, self.group, (torch.tensor(row, dtype=torch.float64),), f"survey {self._meetings}")
        return [packet[0].tolist() for packet in rows]
