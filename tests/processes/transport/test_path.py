import socket

import pytest

from polyrhythm.core.processes.transport.lanes import needed
from polyrhythm.core.processes.transport.path import PathEstimate, after_silence, measure


def test_a_connection_over_loopback_is_measured_and_a_local_one_is_not() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as near:
        far, _ = server.accept()
        with far:
            near.sendall(bytes(100_000))
            received = 0
            while received < 100_000:
                received += len(far.recv(65536))
            path = measure(near)
    assert path is not None
    assert 0 < path.round_trip < 1
    assert path.window > 1000
    one, other = socket.socketpair()
    with one, other:
        assert measure(one) is None


class Unlike(socket.socket):
    """A TCP socket of a system that returns less."""

    def getsockopt(self, *given: int) -> bytes:  # type: ignore[override]
        return bytes(100)


def test_what_another_system_returns_is_not_taken_for_a_measurement() -> None:
    with Unlike(socket.AF_INET) as unlike:
        assert measure(unlike) is None
    with socket.socket(socket.AF_INET) as unconnected:
        assert measure(unconnected) is None


@pytest.mark.parametrize(("packets", "silence", "after"), [(800, 0.0, 800), (800, 0.5, 200), (800, 60.0, 10), (6, 60.0, 6), (800, 1e9, 10)])
def test_a_window_halves_with_each_timeout_of_silence_down_to_the_first(packets: int, silence: float, after: int) -> None:
    assert after_silence(packets, silence, 0.25) == after
    assert after_silence(packets, silence, 0.0) == packets


def test_a_path_needs_as_many_lanes_as_windows_fill_it() -> None:
    slow, payload = PathEstimate(0.04, 0.0, 14_480.0), 1 << 30
    # 50 Mbit/s: 6.25 MB/s for 40 ms, and 20 ms in which nobody may look
    assert needed([slow], 6.25e6, payload) == 26
    assert needed([slow] * 3, 6.25e6, payload) == 26
    assert needed([slow], 6.25e6, 33_000) == 3
    assert needed([PathEstimate(0.04, 0.0, 500_000.0)], 6.25e6, payload) == 1
    assert needed([slow], 0.0, payload) <= 1


def test_a_short_path_needs_none() -> None:
    assert needed([PathEstimate(0.0001, 1e9, 14_480.0)], 1e9, 1 << 30) == 1
