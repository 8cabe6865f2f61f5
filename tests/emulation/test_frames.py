"""What is read from a frame: target, connection, payload, bytes on the line."""

from __future__ import annotations

import socket
import struct

from polyrhythm.tools.emulation import frames


def tcp(source: str, target: str, data: int, segment: int = 0, ports: tuple[int, int] = (1, 2)) -> bytes:
    """A frame with 12 bytes of TCP options."""
    offload = struct.pack("=BBHHHH", 0, 1 if segment else 0, 0, segment, 0, 0)
    addresses = socket.inet_aton(source) + socket.inet_aton(target)
    ip = struct.pack("!BBHHHBBH", 0x45, 0, 0, 0, 0, 64, 6, 0) + addresses
    return offload + ip + struct.pack("!HHIIBBHHH", *ports, 0, 0, 8 << 4, 0, 0, 0, 0) + bytes(12 + data)


def test_a_frame_states_where_it_goes() -> None:
    assert frames.target(tcp(frames.address(0), frames.address(2), 10)) == 2
    assert frames.target(tcp(frames.address(0), "224.0.0.1", 10)) is None
    assert frames.target(bytes(10) + b"\x60" + bytes(39)) is None
    assert frames.target(b"") is None


def test_the_payload_has_no_headers() -> None:
    assert frames.payload(tcp("10.77.0.1", "10.77.0.2", 1448)) == 1448
    assert frames.payload(tcp("10.77.0.1", "10.77.0.2", 0)) == 0


def test_on_the_line_each_packet_of_a_long_frame_has_its_headers() -> None:
    assert frames.on_the_line(tcp("10.77.0.1", "10.77.0.2", 1448)) == 1500
    assert frames.on_the_line(tcp("10.77.0.1", "10.77.0.2", 3 * 1448 + 1, segment=1448)) == 3 * 1448 + 1 + 4 * 52
    assert frames.on_the_line(tcp("10.77.0.1", "10.77.0.2", 0)) == 52


def test_connections_differ_by_addresses_and_ports() -> None:
    one = tcp("10.77.0.1", "10.77.0.2", 10)
    assert frames.flow(one) == frames.flow(tcp("10.77.0.1", "10.77.0.2", 99))
    others = [tcp("10.77.0.2", "10.77.0.1", 10), tcp("10.77.0.1", "10.77.0.2", 10, ports=(1, 3))]
    assert len({frames.flow(each) for each in [one, *others]}) == 3
