"""What the threads send: the same packets in C and in Python, to sockets that are connected and to ports that others know by a key."""

import os
import socket
import time
from pathlib import Path

import pytest

from polyrhythm.core import atomic
from polyrhythm.core.processes.runtime.beat import NBYTES, Beat, decode
from polyrhythm.core.processes.runtime.beat_sender import BeatSender, BeatTarget, NativeBeats, PortableBeats, mac
from polyrhythm.core.processes.runtime.status import StepTracker

SENDERS = [PortableBeats, NativeBeats]  # twice the same where there is no C compiler
KEY = bytes(range(32))


@pytest.mark.parametrize("kind", SENDERS)
@pytest.mark.parametrize(("family", "ip"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")], ids=["v4", "v6"])
def test_a_port_gets_packets_with_a_proof_and_a_connected_socket_without(
    kind: type[PortableBeats | NativeBeats], family: socket.AddressFamily, ip: str
) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs, socket.socket(family, socket.SOCK_DGRAM) as here, socket.socket(family, socket.SOCK_DGRAM) as there:
        there.bind((ip, 0))
        beats = kind(1_000_000)
        beats.add(ours.fileno(), "", 0, 0, b"")
        beats.add(here.fileno(), ip, there.getsockname()[1], 7, KEY)
        beats.start()
        beats.update(1, 2, -3, 4, 5, 6)
        beats.update(10, 20, -30, 40, 50, 60)
        time.sleep(0.01)
        beats.stop()
        for channel, tag in ((theirs, 0), (there, 7)):
            channel.setblocking(False)
            packets = list(iter(lambda channel=channel: received(channel), b""))  # type: ignore[misc]
            assert [packet[NBYTES:] for packet in packets] == [mac(KEY, packet[:NBYTES]) if tag else b"" for packet in packets]
            found = [decode(packet[:NBYTES]) for packet in packets]
            assert [beat.number for _, beat in found] == list(range(1, len(found) + 1))
            assert {sender for sender, _ in found} == {tag}
            last = found[-1][1]
            assert last == Beat(len(found), last.sent, os.getpid(), 10, 20, -30, 40, 50, 60, kind is not PortableBeats)
            assert abs(time.monotonic_ns() - last.sent) < 10**10


def received(channel: socket.socket) -> bytes:
    try:
        return channel.recv(200)
    except BlockingIOError:
        return b""


@pytest.mark.parametrize("kind", SENDERS)
def test_a_target_that_has_no_room_or_is_gone_keeps_nobody_waiting(kind: type[PortableBeats | NativeBeats]) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        beats = kind(10_000)
        beats.add(ours.fileno(), "", 0, 0, b"")
        beats.start()
        for number in range(3000):
            beats.update(number, 0, 0, 0, 0, 0)
        theirs.close()
        beats.update(0, 0, 0, 0, 0, 0)
        beats.stop()


def test_the_numbers_are_those_of_the_program_and_of_its_oldest_write(tmp_path: Path) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        steps = StepTracker()
        steps.clock, steps.longest, steps.computed = 17, 0.5, 2.0
        steps.wait()
        sender = BeatSender(steps)
        sender.add(BeatTarget(ours))
        began = time.monotonic_ns()
        with atomic.writing():
            sender.start()
            beat = decode(theirs.recv(200))[1]
        sender.stop()
        assert (beat.step, beat.pulse, beat.phase, beat.computed, beat.longest) == (17, 1, steps.phase, 2_000_000_000, 500_000_000)
        assert began <= beat.writing <= beat.sent
        assert atomic.under_way == {}
