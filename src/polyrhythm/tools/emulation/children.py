"""The processes of a lab: one that becomes each host, and the relay."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from polyrhythm.errors import RunError
from polyrhythm.hardware.network import Network
from polyrhythm.hardware.network_json import network_json
from polyrhythm.tools.emulation.device import NAME
from polyrhythm.tools.emulation.fabric import RelayTraffic
from polyrhythm.tools.emulation.frames import address
from polyrhythm.tools.emulation.impairments import Impairments
from polyrhythm.tools.emulation.orders import HostOrders, RelayOrders

_MASTER_PORT = 29500
_END_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class HostProcess:
    """The process that becomes a host, and the ends of its pipes."""

    process: subprocess.Popen[bytes]
    stdout: int
    stderr: int
    refusals: int

    @property
    def code(self) -> int:
        """The exit code, or 128 and the number of the signal that ended it, as in a shell. Only after its end."""
        code = self.process.returncode
        return code if code >= 0 else 128 - code

    def refusal(self) -> str:
        """Why it could not start the command; "" if it did. Only after its end."""
        return os.read(self.refusals, 65536).decode()


def environment(host: int, hosts: int, site: str) -> dict[str, str]:
    """The environment of a command: torchrun's variables, one worker a host, and the names of address, site and device."""
    threads = {} if "OMP_NUM_THREADS" in os.environ else {"OMP_NUM_THREADS": "1"}  # as torchrun does: the hosts share the cores
    return threads | {
        "RANK": str(host),
        "WORLD_SIZE": str(hosts),
        "LOCAL_RANK": "0",
        "LOCAL_WORLD_SIZE": "1",
        "MASTER_ADDR": address(0),
        "MASTER_PORT": str(_MASTER_PORT),
        "POLYRHYTHM_HOST_ADDR": address(host),
        "POLYRHYTHM_SITE": site,
        "GLOO_SOCKET_IFNAME": NAME,
        "NCCL_SOCKET_IFNAME": NAME,
        "TP_SOCKET_IFNAME": NAME,
    }


class LabProcesses:
    """Starts and ends the processes of a lab."""

    def __init__(self, network: Network, impairments: Impairments, count_headers: bool) -> None:
        self._network = network
        self._impairments = impairments
        self._count_headers = count_headers
        self._relay: subprocess.Popen[bytes] | None = None
        self._sockets: list[socket.socket] = []
        self.hosts: list[HostProcess] = []

    def start_host(self, host: int, hosts: int, command: Sequence[str], congestion: str) -> HostProcess:
        """Start the process that becomes `host`; it runs `command` once the relay has the devices of all `hosts`."""
        near_end, far_end = socket.socketpair()
        self._sockets.append(near_end)
        refusals, refusal = os.pipe()
        together = not self._impairments.loss.some  # else a loss would take dozens of packets at once
        site = self._network.sites[self._network.site_of(host, hosts)].name
        orders = HostOrders(
            host, hosts, list(command), environment(host, hosts, site), congestion, together, far_end.fileno(), refusal, os.getpid()
        )
        with far_end:
            process = _start("host", orders, (far_end.fileno(), refusal), subprocess.PIPE)
        os.close(refusal)
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin.close()
        started = HostProcess(process, os.dup(process.stdout.fileno()), os.dup(process.stderr.fileno()), refusals)
        process.stdout.close()
        process.stderr.close()
        self.hosts.append(started)
        return started

    def start_relay(self) -> None:
        """Start the relay between the hosts; they begin when it has their devices."""
        descriptors = [near_end.fileno() for near_end in self._sockets]
        orders = RelayOrders(network_json(self._network), descriptors, self._impairments, self._count_headers)
        self._relay = _start("relay", orders, tuple(descriptors), None)
        for near_end in self._sockets:
            near_end.close()

    def relay_has_failed(self) -> bool:
        """True if the relay has ended by itself."""
        return self._relay is not None and self._relay.poll() is not None

    def end_relay(self) -> RelayTraffic:
        """End the relay; returns what it carried. Raises RunError if it cannot."""
        assert self._relay is not None
        try:
            printed, _ = self._relay.communicate(timeout=_END_SECONDS)
        except subprocess.TimeoutExpired:
            raise RunError(
                f"The relay of the lab did not end within {_END_SECONDS:g} s: this machine may be too busy, so start fewer hosts."
            ) from None
        if self._relay.returncode or not printed:
            raise RunError("The relay of the lab has failed: its error is on stderr.")
        return msgspec.json.decode(printed, type=RelayTraffic)

    def kill(self) -> None:
        """End all that still runs, and wait for it."""
        for process in [host.process for host in self.hosts] + ([self._relay] if self._relay else []):
            process.kill()  # does nothing to one that has been waited for
            process.wait()
        for pipe in (self._relay.stdin, self._relay.stdout) if self._relay else ():
            if pipe is not None:
                pipe.close()
        for host in self.hosts:
            os.close(host.refusals)
        for near_end in self._sockets:
            near_end.close()


def _start(role: str, orders: msgspec.Struct, descriptors: tuple[int, ...], errors: int | None) -> subprocess.Popen[bytes]:
    """Start `polyrhythm.tools.emulation.<role>` in a separate session, and send it its orders. Its standard input stays open."""
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", f"polyrhythm.tools.emulation.{role}"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=errors,
        pass_fds=descriptors,
        start_new_session=True,
    )
    assert process.stdin is not None
    process.stdin.write(msgspec.json.encode(orders) + b"\n")
    process.stdin.flush()
    return process
