"""Ranges in turn: every element of every value is sent exactly once in a pass, however the number of ranges changes."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from polyrhythm.codec import ErrorFeedback, MaxN, Ranges
from polyrhythm.core import rng
from polyrhythm.core.kernel.group import Group
from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.protocols.controller import ControlledSetting
from polyrhythm.core.tensors import Layout, State


class FixedControl:
    """Controls with one value for everything."""

    measures = False

    def __init__(self, value: float) -> None:
        self.setting = value

    def value(self, setting: ControlledSetting, composed: float, receiver: str = "") -> float:
        return self.setting

    def sent(self, receiver: str, nbytes: int, seconds: float) -> None:
        raise AssertionError


def context(setting: float) -> ExchangeContext:
    return ExchangeContext(Group.of_workers(2, 0), rng.stream(0, "codec"), controls=FixedControl(setting))


def sent(codec: Ranges, numel: int, counts: list[int]) -> list[tuple[int, int]]:
    """The ranges of exchanges with these numbers of partitions, of values that are 1 everywhere, and that all was sent that accrued."""
    layout = Layout(("x",), ((numel,),))
    state: State = codec.initial(layout)
    ranges, accrued = [], torch.zeros(numel)
    for count in counts:
        accrued += 1
        encoded = codec.encode(torch.ones(numel), layout, state, context(count))
        state, begin, size = encoded.state, int(encoded.packet[0]), encoded.packet[1].numel()
        assert torch.equal(encoded.packet[1], accrued[begin : begin + size])
        assert torch.equal(codec.decode(encoded.packet, layout), encoded.sent)
        accrued -= encoded.sent
        assert torch.equal(codec.residual(state, layout), accrued)
        ranges.append((begin, begin + size))
    return ranges


@given(numel=st.integers(1, 40), count=st.integers(1, 50))
def test_over_as_many_exchanges_as_there_are_partitions_each_element_of_each_value_is_sent_once(numel: int, count: int) -> None:
    ranges = sent(Ranges(count), numel, [count] * (2 * count))
    for first in range(count):
        times = torch.zeros(numel)
        for begin, end in ranges[first : first + count]:
            times[begin:end] += 1
        assert torch.equal(times, torch.ones(numel))
    sizes = [end - begin for begin, end in ranges]
    assert max(sizes) - min(sizes) <= 1


@given(numel=st.integers(1, 40), counts=st.lists(st.integers(1, 12), min_size=1, max_size=60))
def test_a_pass_is_completed_in_order_however_the_number_of_partitions_changes(numel: int, counts: list[int]) -> None:
    at = 0
    for begin, end in sent(Ranges(3), numel, counts):
        assert begin in (at, 0 if at == numel else at)
        at = end


def test_a_packet_has_no_more_bytes_than_its_link_carries_unless_the_least_percentage_requires_them() -> None:
    layout = Layout(("a", "b"), ((50,), (30,)))
    value = torch.randn(80, generator=torch.Generator().manual_seed(0))
    for nbytes in (8, 80, 400, 639, 640, 10_000):
        codec = MaxN(10, least=1e-6)
        packet = codec.encode(value, layout, codec.initial(layout), context(nbytes)).packet
        assert packet[0].numel() == max(2, min(80, nbytes // 8))  # the largest of each tensor is always within the least percentage
        doubles = codec.encode(value.double(), layout, codec.initial(layout), context(nbytes)).packet
        assert doubles[0].numel() == max(2, min(80, nbytes // 12)), "a value of float64 has eight bytes, and its index four"
    floor = MaxN(10, least=10)
    assert floor.encode(value, layout, {}, context(8)).packet[0].numel() == MaxN(10).encode(value, layout, {}, context(0)).packet[0].numel()


def test_what_is_not_a_number_is_sent_and_a_tensor_of_zeros_is_not() -> None:
    layout = Layout(("a", "b", "c"), ((3,), (2,), (2,)))
    value = torch.tensor([1.0, float("nan"), 0.5, 0.0, 0.0, 2.0, 1.0])
    assert MaxN(10).encode(value, layout, {}, context(0)).packet[0].tolist() == [0, 1, 2, 5]
    feedback = ErrorFeedback(MaxN(10))
    encoded = feedback.encode(torch.tensor([0.0, 0, 0, 0, 0, 2, 1]), layout, feedback.initial(layout), context(0))
    assert feedback.residual(encoded.state, layout).tolist() == [0, 0, 0, 0, 0, 0, 1]
