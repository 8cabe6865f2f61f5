"""A calibration of several hosts: the machine of each, and the network between them. `polyrhythm calibrate --hosts` calls it."""

from __future__ import annotations

import ipaddress
import queue
import secrets
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TypeVar

import msgspec

from polyrhythm.core.records.outcome import versions
from polyrhythm.errors import CompositionError, PolyrhythmError, RunError
from polyrhythm.hardware.description import NetworkDescription
from polyrhythm.hardware.machine_terms import MachineTerms
from polyrhythm.hardware.machines import Device, Profile
from polyrhythm.hardware.network import Network
from polyrhythm.hardware.placement import Local
from polyrhythm.tools.measuring.hosts.host_link import HostLink
from polyrhythm.tools.measuring.hosts.host_list import HostList, SurveyedHost
from polyrhythm.tools.measuring.hosts.host_messages import (
    HostHello,
    LinksCounted,
    LinksMeasured,
    MeetingOpened,
    MeetOthers,
    OpenMeeting,
    StepsTimed,
    SurveyFailed,
    SurveyNews,
    TimeSteps,
    TimeWithin,
    WithinTimed,
)
from polyrhythm.tools.measuring.links import Follow

USED = 0.75
"""The part of a host's memory that a worker may use: the system and the user's programs have the rest."""

News = TypeVar("News", HostHello, StepsTimed, WithinTimed, MeetingOpened, LinksMeasured)
Show = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class SurveyedMachine:
    """A host's machine, where its steps were timed, and what a worker may use of its memory."""

    name: str
    machine: Device | Profile | None
    terms: MachineTerms


@dataclass(frozen=True, slots=True)
class HostsFound:
    """The results: a machine for each host, in order, two processes of the first one, and the network, where there are two or more."""

    machines: tuple[SurveyedMachine, ...]
    local: Local
    network: Network | None


class HostSurvey:
    """The agents of `listed`, all of which are asked at once. `show` gets what they print and what is to be known, a line each."""

    def __init__(self, listed: HostList, show: Show, follow: Follow) -> None:
        self._listed = listed
        self._show = show
        self._follow = follow
        self._heard: queue.SimpleQueue[tuple[HostLink, SurveyNews | PolyrhythmError]] = queue.SimpleQueue()
        self._links: list[HostLink] = []

    def measure(self, steps: TimeSteps | None) -> HostsFound:
        """Time the steps of all machines at once, then two processes of the first host, then the lines between the hosts.

        Raises RunError for hosts that cannot be reached, and CompositionError for those that lack something or have other versions.
        """
        with ExitStack() as held:
            for host in self._listed.hosts:
                link = HostLink(host, self._listed.ssh, lambda link, news: self._heard.put((link, news)), self._show)
                self._links.append(held.enter_context(link))
            hellos = self._gather(HostHello, self._links)
            for line in refuse_versions(self._listed.hosts, hellos):
                self._show(line)
            machines = self._machines(steps, hellos)
            self._links[0].order(TimeWithin())
            within = self._gather(WithinTimed, self._links[:1])[0]
            local = Local(within.latency, within.bandwidth)
            return HostsFound(machines, local, self._network(hellos, within) if len(self._links) > 1 else None)

    def _machines(self, steps: TimeSteps | None, hellos: Sequence[HostHello]) -> tuple[SurveyedMachine, ...]:
        timed = [StepsTimed()] * len(hellos)
        if steps is not None:
            for link in self._links:
                link.order(steps)
            timed = self._gather(StepsTimed, self._links)
        found = []
        for host, hello, each in zip(self._listed.hosts, hellos, timed, strict=True):
            machine = each.device or each.profile
            named = None if machine is None else msgspec.structs.replace(machine, name=host.name)
            found.append(SurveyedMachine(host.name, named, MachineTerms(memory=USED * hello.memory)))
        return tuple(found)

    def _network(self, hellos: Sequence[HostHello], within: WithinTimed) -> Network:
        hosts, secret = self._listed.hosts, secrets.token_hex(16)
        address = meeting_address(hosts, hellos)
        self._links[0].order(OpenMeeting(len(hosts), address, secret, hosts[0].address or address))
        port = self._gather(MeetingOpened, self._links[:1])[0].port
        for rank, link in enumerate(self._links):
            local = (within.latency, within.bandwidth) if rank == 0 else None
            own = hosts[rank].address or (address if rank == 0 else "")
            link.order(MeetOthers(rank, len(hosts), address, port, secret, own, local))
        written = self._gather(LinksMeasured, self._links)[0].network
        network = Network.described(msgspec.json.decode(written, type=NetworkDescription))
        sites = tuple(replace(site, name=host.name) for site, host in zip(network.sites, hosts, strict=True))
        return replace(network, sites=sites)

    def _gather(self, kind: type[News], links: Sequence[HostLink]) -> list[News]:
        """The news of that kind from each of `links`. Raises what ended another; of hosts that do not begin, all are named."""
        found: dict[str, News] = {}
        problems: list[PolyrhythmError] = []
        while len(found) + len(problems) < len(links):
            link, news = self._heard.get()
            if isinstance(news, kind):
                found[link.host.name] = news
            elif isinstance(news, LinksCounted):
                self._follow(news.done, news.pairs)
            elif isinstance(news, SurveyFailed):
                problem = CompositionError if news.composed else RunError
                raise problem(f"{link.host.name}: {news.sentence}")
            elif isinstance(news, PolyrhythmError):
                problems.append(news)
                if kind is not HostHello:
                    break
        if problems:
            others = f" (and {len(problems) - 1} more: {'; '.join(map(str, problems[1:]))})" if problems[1:] else ""
            raise type(problems[0])(f"{problems[0]}{others}")
        return [found[link.host.name] for link in links]


def refuse_versions(hosts: Sequence[SurveyedHost], hellos: Sequence[HostHello]) -> list[str]:
    """What is to be known of versions. Raises CompositionError where polyrhythm is not the same everywhere: its messages differ then."""
    here = versions()
    for host, hello in zip(hosts, hellos, strict=True):
        if hello.versions["polyrhythm"] != here["polyrhythm"]:
            raise CompositionError(
                f"{host.name} has polyrhythm {hello.versions['polyrhythm']} and this machine {here['polyrhythm']}: install the same "
                "version on all hosts."
            )
    remarks = []
    for what in ("python", "torch"):
        found = {host.name: hello.versions[what] for host, hello in zip(hosts, hellos, strict=True)}
        if len(set(found.values())) > 1:
            several = ", ".join(f"{name} {version}" for name, version in found.items())
            remarks.append(f"{what} differs among the hosts ({several}): a run by processes needs the same everywhere.")
    return remarks


def meeting_address(hosts: Sequence[SurveyedHost], hellos: Sequence[HostHello]) -> str:
    """The address of the first host at which the others find it.

    Raises CompositionError where it is known only as a loopback address, which other machines cannot reach.
    """
    first, others = hosts[0], list(zip(hosts[1:], hellos[1:], strict=True))
    if first.address:
        return first.address
    found = next((hello.caller for host, hello in others if not host.is_here), "") if first.is_here else hellos[0].address
    if not found and (first.is_here or hellos[0].address == ""):
        found = "127.0.0.1"
    elsewhere = [host.name for host, hello in others if hello.address and not _is_loopback(hello.address)]
    if _is_loopback(found) and elsewhere:
        raise CompositionError(
            f"{first.name} is reached at {found}, which {elsewhere[0]} cannot reach: name it by an address of its network, or give it an "
            "address in the file of hosts."
        )
    return found


def _is_loopback(address: str) -> bool:
    return ipaddress.ip_address(address.partition("%")[0]).is_loopback
