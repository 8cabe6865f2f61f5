import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyrhythm.errors import CompositionError
from polyrhythm.topology import Butterfly, Direct, Fastest, Ring, Tree


@given(st.integers(0, 10**9), st.integers(1, 40), st.floats(0, 0.1), st.floats(1e5, 1e10))
def test_nothing_that_it_may_choose_is_faster(nbytes: int, workers: int, latency: float, bandwidth: float) -> None:
    fastest = Fastest(latency, bandwidth)
    mine = fastest.seconds(nbytes, workers, latency, bandwidth)
    assert all(mine <= other.seconds(nbytes, workers, latency, bandwidth) * (1 + 1e-8) for other in fastest.among)


def test_latency_decides_for_few_bytes_and_volume_for_many() -> None:
    network = Fastest(latency=0.01, bandwidth=1e7, among=(Ring(), Tree()))
    assert network.pick(1000, 16) == Tree()
    assert network.pick(100_000_000, 16) == Ring()


def test_of_equal_ones_the_first_is_taken() -> None:
    assert Fastest(0.0, 1e9, (Ring(), Direct())).pick(1 << 20, 4) == Ring()
    assert Fastest(0.0, 1e9, (Butterfly(), Ring())).pick(1 << 20, 4) == Butterfly()


@pytest.mark.parametrize(("latency", "bandwidth"), [(-1.0, 1e9), (0.1, 0.0), (float("nan"), 1e9), (0.1, float("inf"))])
def test_what_is_no_network_is_refused(latency: float, bandwidth: float) -> None:
    with pytest.raises(CompositionError, match="describes no network"):
        Fastest(latency, bandwidth)


def test_nothing_to_choose_from_is_refused() -> None:
    with pytest.raises(CompositionError, match="nothing to choose from"):
        Fastest(0.1, 1e9, ())


def test_the_order_of_sums_is_that_of_the_algorithm_which_is_picked() -> None:
    network = Fastest(latency=0.01, bandwidth=1e7, among=(Ring(), Tree()))
    assert [network.first(part, 16, 100_000_000) for part in range(16)] == list(range(16))
    assert network.first(1, 16, 1000) is None
    assert network.first(1, 2, 1000) is not None
