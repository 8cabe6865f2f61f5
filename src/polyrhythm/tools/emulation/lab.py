"""Runs a command on every host of a lab, shows what they print, and leaves nothing behind.

    outcome = run(Lab(network.load("slow"), hosts=3), ["python", "train.py"], show)

All that a lab makes belongs to its processes: namespaces without names, devices, mounts. The kernel ends those processes
with this one, so that an end of any kind cleans up.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from polyrhythm.errors import CompositionError, RunError
from polyrhythm.hardware.network import Network
from polyrhythm.tools.emulation.children import HostProcess, LabProcesses
from polyrhythm.tools.emulation.fabric import RelayTraffic
from polyrhythm.tools.emulation.impairments import Impairments
from polyrhythm.tools.emulation.output import OutputReader, Show
from polyrhythm.tools.emulation.requirements import require_machine, require_sense
from polyrhythm.tools.emulation.ways import swing

_LOOK_SECONDS = 0.02
_GRACE_SECONDS = 1.0
"""How long the others have to end after SIGTERM, before SIGKILL."""


@dataclass(frozen=True, slots=True)
class Lab:
    """`hosts` hosts on `network`; worker w of the network is host w.

    `congestion` is the TCP congestion control in every host, by default the machine's own. With `count_headers` a packet
    costs all its bytes, as on a real line; else only what TCP or UDP carries, so that a rate is what a long transfer
    reaches, as in the simulator.
    Raises `CompositionError` for a jitter above its latency.
    """

    network: Network
    hosts: int
    impairments: Impairments = field(default_factory=Impairments)
    congestion: str = ""
    count_headers: bool = False

    def __post_init__(self) -> None:
        if not self.impairments.jitter.some:
            return
        for a, b in ((a, b) for a in range(self.hosts) for b in range(self.hosts) if a != b):
            jitter, latency = swing(self.network, self.impairments, a, b, self.hosts), self.network.delay(a, b, self.hosts)
            if jitter > latency:
                raise CompositionError(
                    f"A jitter of {jitter * 1e3:g} ms was given, but the latency from host {a} to host {b} is only {latency * 1e3:g} ms: "
                    f"give at most {latency * 1e3:g}, or FROM:TO=MS for pairs with a longer latency."
                )

    @property
    def fastest(self) -> float:
        """The bytes per second of the fastest host."""
        accesses = [self.network.access(host, self.hosts) for host in range(self.hosts)]
        return max((max(access.egress, access.ingress) for access in accesses), default=0.0)


@dataclass(frozen=True, slots=True)
class LabResult:
    """The exit codes of the hosts, by number, and the traffic that was carried; `failed` are the hosts that failed by themselves."""

    failed: tuple[int, ...]
    codes: tuple[int, ...]
    seconds: float
    traffic: RelayTraffic

    @property
    def code(self) -> int:
        """The exit code of the first host that failed, or 0."""
        return self.codes[self.failed[0]] if self.failed else 0


def run(lab: Lab, command: Sequence[str], show: Show) -> LabResult:
    """Run `command` once in each host of `lab`, passing every line that they print to `show`; when one fails, the others are ended.

    Raises `CompositionError` if the lab cannot be made here or the command cannot be started, `RunError` if the relay fails.
    """
    require_sense(lab.hosts, command)
    require_machine()
    start_time = time.monotonic()
    output = OutputReader(show)
    processes = LabProcesses(lab.network, lab.impairments, lab.count_headers)
    try:
        for host in range(lab.hosts):
            started = processes.start_host(host, lab.hosts, command, lab.congestion)
            output.follow(started.stdout, host, "stdout")
            output.follow(started.stderr, host, "stderr")
        processes.start_relay()
        failed = _watch(processes, output)
        _end(processes.hosts, output)
        traffic = processes.end_relay()
    finally:
        processes.kill()
        _drain(output)
    return LabResult(failed, tuple(host.code for host in processes.hosts), time.monotonic() - start_time, traffic)


def _watch(processes: LabProcesses, output: OutputReader) -> tuple[int, ...]:
    """Wait until all hosts have ended, or some have failed; returns those that had failed at that moment."""
    while True:
        output.read(_LOOK_SECONDS)
        ended = [number for number, host in enumerate(processes.hosts) if host.process.poll() is not None]
        failed = tuple(number for number in ended if processes.hosts[number].code)
        for number in failed:
            if refusal := processes.hosts[number].refusal():
                raise CompositionError(refusal)
        if processes.relay_has_failed():
            raise RunError("The relay of the lab has ended before the hosts: its error is on stderr.")
        if failed or len(ended) == len(processes.hosts):
            return failed


def _end(hosts: Sequence[HostProcess], output: OutputReader) -> None:
    """End the hosts that still run: SIGTERM, and SIGKILL after a while."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        for host in hosts:
            if host.process.poll() is None:
                os.kill(host.process.pid, number)
        until = time.monotonic() + _GRACE_SECONDS
        while any(host.process.poll() is None for host in hosts) and time.monotonic() < until:
            output.read(_LOOK_SECONDS)


def _drain(output: OutputReader) -> None:
    """Show the last output: the streams end when the last process of a host has."""
    until = time.monotonic() + _GRACE_SECONDS
    while output.open and time.monotonic() < until:
        output.read(_LOOK_SECONDS)
    output.close()
