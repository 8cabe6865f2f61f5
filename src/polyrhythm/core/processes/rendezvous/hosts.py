"""The addresses of hosts: which a name leads to, which are this host's own, and which of its interfaces leads to another."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import ip_address

from polyrhythm.errors import RunError

_PAUSE_SECONDS = 0.5


def _unknown(name: str) -> str:
    return ""


@dataclass(frozen=True, slots=True)
class Names:
    """Resolves the names of hosts to addresses: by the system, within `seconds`, else by what `otherwise` has for a name ("": nothing)."""

    seconds: float = 20.0
    otherwise: Callable[[str], str] = _unknown

    def addresses(self, host: str) -> list[str]:
        """The IP addresses of `host`, a name or an address. Raises RunError where it has none."""
        deadline = time.monotonic() + self.seconds
        while True:
            try:
                return _looked_up(host)
            except (OSError, UnicodeError) as problem:
                if found := self.otherwise(host):
                    return _looked_up(found)
                if time.monotonic() > deadline:
                    raise RunError(
                        f"The host name {host!r} of the rendezvous cannot be resolved here ({_reason(problem)}), tried for "
                        f"{self.seconds:.0f} seconds: set MASTER_ADDR to an address of worker/0's host that all hosts can reach."
                    ) from None
            time.sleep(_PAUSE_SECONDS)


def is_address(text: str) -> bool:
    """True if `text` is an IP address, and not a name or something else."""
    try:
        ip_address(text.partition("%")[0])
    except ValueError:
        return False
    return True


def is_loopback(ip: str) -> bool:
    """True if only processes of this host can reach `ip`."""
    return ip_address(ip.partition("%")[0]).is_loopback


def is_everywhere(ip: str) -> bool:
    """True if to listen at `ip` is to listen at all addresses of this host."""
    return ip_address(ip.partition("%")[0]).is_unspecified


def is_own(ip: str) -> bool:
    """True if `ip` is an address of this host."""
    with socket.socket(_family(ip), socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((ip, 0))
        except OSError:
            return False
    return True


def towards(ip: str) -> str:
    """The address of this host's interface over which `ip` is reached; empty if there is none."""
    with socket.socket(_family(ip), socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((ip, 9))  # sends nothing: only looks up the route
        except OSError:
            return ""
        return str(probe.getsockname()[0])


def _looked_up(host: str) -> list[str]:
    found = [str(target[0]) for *_, target in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)]
    return sorted(dict.fromkeys(found), key=lambda ip: ":" in ip)  # older protocols first: the other often has no route


def _reason(problem: Exception) -> str:
    return getattr(problem, "strerror", None) or str(problem)


def _family(ip: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in ip else socket.AF_INET
