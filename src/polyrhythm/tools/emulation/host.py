"""The process that becomes a host: `python -m polyrhythm.tools.emulation.host`, with its orders on standard input.

It leaves the machine's namespaces, hands its network device to the relay, and starts a second process, the first of the
new process numbers. That one runs the command; when it ends, the kernel ends all that the command left behind, and when
the lab's own process ends, even by SIGKILL, the kernel ends these two.
"""

from __future__ import annotations

import os
import select
import signal
import socket
from pathlib import Path
from types import FrameType
from typing import NoReturn

import msgspec

from polyrhythm.tools.emulation import namespaces
from polyrhythm.tools.emulation.device import open_device
from polyrhythm.tools.emulation.frames import address
from polyrhythm.tools.emulation.orders import HostOrders, read_line

_CONGESTION = Path("/proc/sys/net/ipv4/tcp_congestion_control")
_ALLOWED = Path("/proc/sys/net/ipv4/tcp_allowed_congestion_control")
REFUSED = 2


def main() -> None:
    """Become a host, run the command, and exit as it did: with its code, or with 128 and the signal that ended it."""
    orders = msgspec.json.decode(read_line(), type=HostOrders)
    namespaces.die_with_parent()
    if os.getppid() != orders.parent:  # it ended before this call
        raise SystemExit(1)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for descriptor in (orders.relay, orders.refusal):
        os.set_inheritable(descriptor, False)  # this process inherited them, and the command must not
    relay = socket.socket(fileno=orders.relay)
    try:
        namespaces.leave_machine()
        namespaces.furnish(name(orders.host), hosts_file(orders.hosts))
        device = open_device(orders.host, orders.together)
    except OSError as problem:
        _refuse(
            orders,
            f"The lab cannot make a host here: {problem.strerror or problem}. "
            "It needs root on a Linux machine, or in a privileged container, with TUN devices and namespaces.",
        )
    _choose_congestion(orders)
    socket.send_fds(relay, [b"d"], [device])
    os.close(device)  # the relay alone holds it now
    myself = os.pidfd_open(os.getpid())
    first = os.fork()
    if first == 0:
        _lead(orders, relay, myself)
    relay.close()
    os.close(orders.refusal)
    signal.signal(signal.SIGTERM, lambda *_: os.kill(first, signal.SIGTERM))
    raise SystemExit(_code(os.waitpid(first, 0)[1]))


def name(host: int) -> str:
    """The host name of a host."""
    return f"host-{host}"


def hosts_file(hosts: int) -> str:
    """An /etc/hosts by which the hosts know each other by name."""
    known = [(address(host), name(host)) for host in range(hosts)]
    # the second form is how a socket for both versions of IP names a peer of version 4
    return "".join(f"{ip} {each}\n::ffff:{ip} {each}\n" for ip, each in [("127.0.0.1", "localhost"), *known]) + "::1 localhost\n"


def _lead(orders: HostOrders, relay: socket.socket, parent: int) -> NoReturn:
    """Run as the first process of the host: start the command once all hosts are there, and reap orphans until it ends."""
    namespaces.die_with_parent()
    if select.select([parent], (), (), 0)[0]:  # it ended before this call; its number cannot be seen from here
        raise SystemExit(1)
    try:
        namespaces.show_own_processes()
    except OSError as problem:
        _refuse(orders, f"The lab cannot make a host here: {problem.strerror or problem}. It needs a machine that lets root mount /proc.")
    if not relay.recv(1):  # the relay or another host has failed
        raise SystemExit(1)
    relay.close()
    try:
        command = os.posix_spawnp(
            orders.command[0],
            orders.command,
            {**os.environ, **orders.environment},
            setsid=True,  # a Ctrl-C at the terminal is for the lab, which ends the hosts
            setsigdef=[signal.SIGPIPE, signal.SIGXFSZ],  # Python ignores these, and the command should not
        )
    except OSError as problem:
        _refuse(orders, f"The command {orders.command[0]!r} cannot be started: {problem.strerror}. Give a program that is on the PATH.")

    def pass_on(number: int, _: FrameType | None) -> None:
        os.killpg(command, number)

    signal.signal(signal.SIGTERM, pass_on)
    os.close(orders.refusal)
    while True:
        ended, status = os.wait()
        if ended == command:
            raise SystemExit(_code(status))


def _choose_congestion(orders: HostOrders) -> None:
    if not orders.congestion:
        return
    try:
        _CONGESTION.write_text(orders.congestion, encoding="ascii")
    except (OSError, ValueError):  # a ValueError for characters that no name has
        known = ", ".join(_ALLOWED.read_text(encoding="ascii").split())
        _refuse(
            orders,
            f"The TCP congestion control {orders.congestion!r} may not be chosen here: give one of {known}, "
            "or add it to net.ipv4.tcp_allowed_congestion_control of the machine.",
        )


def _code(status: int) -> int:
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def _refuse(orders: HostOrders, sentence: str) -> NoReturn:
    os.write(orders.refusal, sentence.encode())
    raise SystemExit(REFUSED)


if __name__ == "__main__":
    main()
