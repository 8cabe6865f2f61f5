"""The process that carries packets between the hosts: `python -m polyrhythm.tools.emulation.relay`, with its orders on standard input.

It runs until its standard input ends, which it also does when the parent is killed, and then prints the traffic.
"""

from __future__ import annotations

import contextlib
import gc
import os
import select
import socket
import sys
import time
from collections.abc import Callable

import msgspec

from polyrhythm.hardware.description import NetworkDescription
from polyrhythm.hardware.network import Network
from polyrhythm.hardware.timetable import timetable
from polyrhythm.tools.emulation import frames
from polyrhythm.tools.emulation.fabric import Fabric, RelayTraffic
from polyrhythm.tools.emulation.orders import RelayOrders, read_line
from polyrhythm.tools.emulation.ways import fair_links, least_latency, ways

READY = b"r"
_AT_ONCE = 32
"""Frames taken from one host before the others have their turn."""
_LONGEST_SLEEP = 60.0
_TICK = 0.01
"""The part of the least latency by which a packet may arrive late, so that the relay wakes less often and leaves the cores to the hosts."""


def main() -> None:
    """Receive the hosts' devices, notify the hosts that all are there, and carry what they send."""
    orders = msgspec.json.decode(read_line(), type=RelayOrders)
    network = Network.described(msgspec.json.decode(orders.network, type=NetworkDescription))
    links = fair_links(network, len(orders.hosts))
    fabric = Fabric(ways(network, len(orders.hosts), orders.impairments, links))
    sockets = [socket.socket(fileno=descriptor) for descriptor in orders.hosts]
    devices = [device for connection in sockets for device in _take_device(connection)]
    if len(devices) < len(sockets):
        sys.stdin.read()  # a host did not start, and reports why itself; there is nothing to carry until this process is ended
        _print(RelayTraffic.none(len(sockets)))
        return
    for connection in sockets:
        with contextlib.suppress(OSError):  # that host has failed meanwhile; the lab reports it
            connection.send(READY)
    fabric.plan(time.monotonic(), [(change.at, links[change.link], change.bandwidth) for change in timetable(network, len(orders.hosts))])
    gc.disable()  # nothing here makes cycles, and a pause would delay every packet
    with contextlib.suppress(PermissionError):  # without the right to it, the relay is late where all cores are busy
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    charge = frames.on_the_line if orders.count_headers else frames.payload
    carry(fabric, devices, charge, _TICK * least_latency(network, len(devices)))
    _print(fabric.traffic)


def _print(traffic: RelayTraffic) -> None:
    """Print it, unless the reader has gone."""
    with contextlib.suppress(BrokenPipeError):  # not by sys.stdout, which would try again at exit
        os.write(1, msgspec.json.encode(traffic))


def _take_device(connection: socket.socket) -> list[int]:
    """The descriptor that a host sends; none if it has ended without."""
    return socket.recv_fds(connection, 1, 1)[1]


def carry(fabric: Fabric, devices: list[int], charge: Callable[[bytes], int], tick: float) -> None:
    """Carry frames between `devices` until standard input ends. `charge` gives the bytes of a frame that count on links.

    At least `tick` seconds pass between two checks of what is due, unless a host sends. Such a delay does not change the times of packets
    on links.
    """
    hosts = {device: host for host, device in enumerate(devices)}
    watched = [0, *devices]
    while True:
        wait = min(max(tick, fabric.next_time() - time.monotonic()), _LONGEST_SLEEP)
        ready, _, _ = select.select(watched, (), (), wait)
        now = time.monotonic()
        for device in ready:
            if device == 0:
                return
            if not _take_frames(fabric, device, hosts[device], charge, now):
                watched.remove(device)
        for target, frame in fabric.advance(time.monotonic()):
            with contextlib.suppress(OSError):  # the host has gone: what is on its way to it is lost
                os.write(devices[target], frame)


def _take_frames(fabric: Fabric, device: int, source: int, charge: Callable[[bytes], int], now: float) -> bool:
    """Send what a host has to send; False if the host has gone."""
    for _ in range(_AT_ONCE):
        try:
            frame = os.read(device, frames.LARGEST)
        except BlockingIOError:
            return True
        except OSError:
            return False
        target = frames.target(frame)
        if target is not None and target != source and target < len(fabric.traffic.packets):
            fabric.send(now, (source, target), frames.flow(frame), charge(frame), frame)
    return True


if __name__ == "__main__":
    main()
