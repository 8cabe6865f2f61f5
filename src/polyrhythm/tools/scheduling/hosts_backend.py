"""The backend over hosts that are reached by a command such as ssh, or that are parts of this machine: an agent on each, whose beats say
that it is there, starts the workers. Those of a malleable job are a crew, which shrinks and grows while it trains. A place is given away
when its worker has ended; that of a dead host has when the time is up after which an agent that is not heard ends by its own clock.
"""

from __future__ import annotations

import secrets
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from shlex import split

from polyrhythm.cluster import (
    Action,
    Cluster,
    ClusterState,
    EvictJob,
    JobEnded,
    JobSubmitted,
    PartLost,
    PlaceJob,
    ResizeJob,
    WorkerSlot,
)
from polyrhythm.cluster.liveness import LivenessWatch, Probe
from polyrhythm.core.settings import checked
from polyrhythm.errors import CompositionError
from polyrhythm.tools.scheduling.agent_link import AgentLink
from polyrhythm.tools.scheduling.job_run import CarriedJob, has_room
from polyrhythm.tools.scheduling.news import HostBeat, StopWorker, WorkerEnded
from polyrhythm.tools.scheduling.seen import workers_seen
from polyrhythm.tools.scheduling.training_jobs import TrainingJob
from polyrhythm.tools.scheduling.worker_commands import address_of, free_port, start_of

_AGAIN_SECONDS = 10.0
_LINGER_SECONDS = 30.0
_STARTUP_SECONDS = 60.0
"""An agent has so many seconds for its first beat."""


@dataclass(frozen=True, slots=True)
@checked
class HostSettings:
    """How hosts are reached: by `reach`, such as "ssh {host}", with `python` there; without, all are parts of this machine.

    A host from which no beat comes for three times `interval` seconds is lost. Records and logs are in `out`, a directory that all hosts
    see. A job whose workers fail more than `restarts` times each has failed.
    """

    out: Path
    reach: str | None = None
    python: str = sys.executable
    interval: float = 2.0
    restarts: int = 3

    def __post_init__(self) -> None:
        if self.reach is not None and "{host}" not in self.reach:
            raise CompositionError(f"reach={self.reach!r} does not say which host: write {{host}} where its name belongs.")
        if not self.interval > 0 or self.restarts < 0:
            raise CompositionError(
                f"interval={self.interval} and restarts={self.restarts} cannot be: give more than zero, and zero or more."
            )


@dataclass(slots=True)
class _Host:
    link: AgentLink
    probed: float
    ended: float | None = None
    gone: float = 0.0
    broken: frozenset[int] = field(default_factory=frozenset)


class HostsBackend:
    """The jobs of a list on the hosts of a cluster. `runs` has what has become of each job, `health` of each host."""

    def __init__(self, cluster: Cluster, jobs: Sequence[TrainingJob], settings: HostSettings, now: float) -> None:
        self._cluster = cluster
        self._settings = settings
        self._liveness = LivenessWatch()
        self.runs = {each.job.name: CarriedJob(each) for each in jobs}
        self._hosts = {host.name: _Host(self._link(host.name), now + _STARTUP_SECONDS) for host in cluster.hosts}

    @property
    def health(self) -> Mapping[str, str]:
        """The health of each host, in a word."""
        parts = self._liveness.parts
        return {name: parts[(name, None)].health.value if (name, None) in parts else "healthy" for name in self._hosts}

    @property
    def agents(self) -> Mapping[str, int]:
        """The process of each host's agent here, with which its workers end."""
        return {name: host.link.process.pid for name, host in self._hosts.items()}

    @property
    def over(self) -> bool:
        """True when all jobs have ended or failed."""
        return all(run.over is not None for run in self.runs.values())

    def ready(self) -> bool:
        """True when every host has given a beat, or has been too late for it."""
        now = time.monotonic()
        return all(host.link.has_news or not host.link.is_there or now > host.probed for host in self._hosts.values())

    def close(self) -> None:
        """End all workers and agents."""
        for host in self._hosts.values():
            host.link.close()

    def observed(self, state: ClusterState, now: float) -> ClusterState:
        """The state after the news of all agents: jobs that are over, workers that have ended, hosts and GPUs that are lost or back."""
        for name, run in self.runs.items():
            if name not in state.jobs and run.over is None:
                state = state.after(JobSubmitted(run.training.job), now)
        for name, host in self._hosts.items():
            state = self._heard(state, name, host, now)
        for name, run in self.runs.items():
            if name not in state.jobs:
                continue
            self._stop(run, [worker for worker, slot in run.workers.items() if not state.healthy(slot.host, slot.devices)])
            self._stop(run, run.lingering(_LINGER_SECONDS, now))
            if run.settle(self._settings.restarts, now):
                self._stop(run, list(run.workers))
                state = state.after(JobEnded(name), now)
            elif name in state.running:
                state = workers_seen(state, run, now)
        return state

    def carry_out(self, action: Action, now: float) -> bool:
        """Start workers, or have them leave. False while those that leave still have their room, and where an agent takes no order."""
        run = self.runs[action.job]
        match action:
            case PlaceJob(placement):
                hosts = [*placement.hosts, *(host.name for host in self._cluster.hosts if host.name not in placement.hosts)]
                addresses = tuple(address_of(self._cluster, host, self._remote) for host in hosts)
                if run.leaving or not self._has_room(run, placement.slots):  # those of the last attempt have not ended yet
                    return False
                run.begin(secrets.token_hex(16), free_port(addresses[0], self._remote), addresses, placement.system, now)
                return self._start(run, placement.slots)
            case ResizeJob(placement, _):
                left = list(placement.slots)
                leaving = []
                for worker, slot in run.workers.items():
                    if slot in left:
                        left.remove(slot)
                    else:
                        leaving.append(worker)
                self._stop(run, leaving)
                return self._has_room(run, left) and self._start(run, left)
            case EvictJob():
                self._stop(run, list(run.workers))
        return True

    @property
    def _remote(self) -> bool:
        return self._settings.reach is not None

    def _link(self, name: str) -> AgentLink:
        reach = [word.replace("{host}", name) for word in split(self._settings.reach or "")]
        return AgentLink(name, reach, self._settings.python, self._settings.interval)

    def _has_room(self, run: CarriedJob, slots: Sequence[WorkerSlot]) -> bool:
        are_heard = all(self._hosts[slot.host].link.was_heard for slot in slots)  # the time of those that were not is not known to end
        return are_heard and has_room(self._cluster, self.runs.values(), run, slots)

    def _start(self, run: CarriedJob, slots: Sequence[WorkerSlot]) -> bool:
        """Start all of these workers, or none: those that were there before go on in either case."""
        begun: list[str] = []
        for rank, slot in enumerate(slots):
            begun.append(run.next_worker(slot))
            where = (self._settings.python, address_of(self._cluster, slot.host, self._remote), self._settings.out)
            if not self._hosts[slot.host].link.order(start_of(run, begun[-1], rank, slot, where)):
                del run.workers[begun.pop()]
                self._stop(run, begun)
                return False
        return True

    def _stop(self, run: CarriedJob, workers: Sequence[str]) -> None:
        """Have these leave; how they end is of no interest any more."""
        for worker in workers:
            run.leaving[worker] = slot = run.workers.pop(worker)
            self._hosts[slot.host].link.order(StopWorker(worker))

    def _heard(self, state: ClusterState, name: str, host: _Host, now: float) -> ClusterState:
        probes = self._probes(name, host, now)
        is_dead = (None, Probe.FATAL) in probes
        for device, probe in probes:
            self._liveness, events = self._liveness.after(name, device, probe, now)
            for event in events:
                state = state.after(event, now)
                is_dead = is_dead or event == PartLost(name)
        if is_dead and host.ended is None:
            host.ended, host.gone = now, now + host.link.give_up()
        return state

    def _probes(self, name: str, host: _Host, now: float) -> list[tuple[int | None, Probe]]:
        """The probes that the news of a host are, and their absence."""
        probes: list[tuple[int | None, Probe]] = []
        for news in host.link.news():
            match news:
                case HostBeat(broken) if host.ended is None:
                    host.probed = now
                    probes += [(None, Probe.CLEAN), *self._gpus(host, frozenset(broken or ()))]
                case WorkerEnded(worker, status):
                    run = self.runs[worker.partition("/")[0]]
                    run.leaving.pop(worker, None)
                    if worker in run.workers:
                        run.ended(worker, status, self._settings.out)
        if host.ended is not None:
            if now >= host.gone:
                self._forget(name)
            if now > max(host.ended + _AGAIN_SECONDS, host.gone):
                host.link.close()
                self._hosts[name] = _Host(self._link(name), now + _STARTUP_SECONDS)
        elif not host.link.is_there:
            probes.append((None, Probe.FATAL))
        elif now > host.probed + 1.5 * self._settings.interval:
            host.probed = now - 0.5 * self._settings.interval
            probes.append((None, Probe.MISSED))
        return probes

    def _forget(self, name: str) -> None:
        """The workers that a dead host still had have ended, with its agent or by its clock: others may take their place."""
        for run in self.runs.values():
            run.leaving = {worker: slot for worker, slot in run.leaving.items() if slot.host != name}

    def _gpus(self, host: _Host, broken: frozenset[int]) -> list[tuple[int | None, Probe]]:
        """A GPU that broke, and clean probes of those that were broken and answer again."""
        known = self._cluster.host(host.link.name).devices
        fresh: list[tuple[int | None, Probe]] = [(gpu, Probe.FATAL) for gpu in sorted(broken - host.broken) if gpu < len(known)]
        back: list[tuple[int | None, Probe]] = [(gpu, Probe.CLEAN) for gpu in range(len(known)) if gpu not in broken]
        host.broken = broken
        return [*fresh, *back]
