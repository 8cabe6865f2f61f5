"""The agents of all hosts: they are started, heard, taken for dead after missed beats, and tried again."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from shlex import split

from polyrhythm.cluster import Cluster, ClusterState, PartLost
from polyrhythm.cluster.liveness import LivenessWatch, Probe
from polyrhythm.tools.scheduling.agent_link import AgentLink
from polyrhythm.tools.scheduling.host_settings import HostSettings
from polyrhythm.tools.scheduling.news import AgentOrder, HostBeat, WorkerEnded

_AGAIN_SECONDS = 10.0
_STARTUP_SECONDS = 60.0
"""An agent has so many seconds for its first beat."""


@dataclass(slots=True)
class _Host:
    link: AgentLink
    probed: float
    ended: float | None = None
    gone: float = 0.0
    broken: frozenset[int] = field(default_factory=frozenset)


class HostAgents:
    """An agent on each host of a cluster. `ended` is called with the name and the status of each worker that has ended, and `forgotten`
    with the name of a dead host when none of its workers can be there any more."""

    def __init__(
        self, cluster: Cluster, settings: HostSettings, now: float, ended: Callable[[str, int], None], forgotten: Callable[[str], None]
    ) -> None:
        self._cluster = cluster
        self._settings = settings
        self._liveness = LivenessWatch()
        self._ended = ended
        self._forgotten = forgotten
        self._hosts = {host.name: _Host(self._link(host.name), now + _STARTUP_SECONDS) for host in cluster.hosts}

    @property
    def health(self) -> Mapping[str, str]:
        """The health of each host, in a word."""
        parts = self._liveness.parts
        return {name: parts[(name, None)].health.value if (name, None) in parts else "healthy" for name in self._hosts}

    @property
    def processes(self) -> Mapping[str, int]:
        """The process of each host's agent here, with which its workers end."""
        return {name: host.link.process.pid for name, host in self._hosts.items()}

    def ready(self) -> bool:
        """True when every host has given a beat, or has been too late for it."""
        now = time.monotonic()
        return all(host.link.has_news or not host.link.is_there or now > host.probed for host in self._hosts.values())

    def was_heard(self, host: str) -> bool:
        """True if the agent of `host` has ever given a beat: the time of one that was not is not known to end."""
        return self._hosts[host].link.was_heard

    def order(self, host: str, order: AgentOrder) -> bool:
        """Give an order to the agent of `host`; False if it is not there."""
        return self._hosts[host].link.order(order)

    def close(self) -> None:
        """End all agents and their workers."""
        for host in self._hosts.values():
            host.link.close()

    def observed(self, state: ClusterState, now: float) -> ClusterState:
        """The state after the news of all agents: hosts and GPUs that are lost or back."""
        for name, host in self._hosts.items():
            state = self._heard(state, name, host, now)
        return state

    def _link(self, name: str) -> AgentLink:
        reach = [word.replace("{host}", name) for word in split(self._settings.reach or "")]
        return AgentLink(name, reach, self._settings.python, self._settings.interval)

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
                    self._ended(worker, status)
        if host.ended is not None:
            if now >= host.gone:
                self._forgotten(name)
            if now > max(host.ended + _AGAIN_SECONDS, host.gone):
                host.link.close()
                self._hosts[name] = _Host(self._link(name), now + _STARTUP_SECONDS)
        elif not host.link.is_there:
            probes.append((None, Probe.FATAL))
        elif now > host.probed + 1.5 * self._settings.interval:
            host.probed = now - 0.5 * self._settings.interval
            probes.append((None, Probe.MISSED))
        return probes

    def _gpus(self, host: _Host, broken: frozenset[int]) -> list[tuple[int | None, Probe]]:
        """A GPU that broke, and clean probes of those that were broken and answer again."""
        known = self._cluster.host(host.link.name).devices
        fresh: list[tuple[int | None, Probe]] = [(gpu, Probe.FATAL) for gpu in sorted(broken - host.broken) if gpu < len(known)]
        back: list[tuple[int | None, Probe]] = [(gpu, Probe.CLEAN) for gpu in range(len(known)) if gpu not in broken]
        host.broken = broken
        return [*fresh, *back]
