"""RandomK: a uniform choice, drawn from the stream that it is given."""

from __future__ import annotations

import torch

from polyrhythm.codec import RandomK
from polyrhythm.core.tensors import Layout

from .aggregation import alone, normal, same_bits

LAYOUT = Layout(("p",), ((20,),))


def test_the_same_stream_sends_the_same_elements_and_the_next_draw_others() -> None:
    value, context = normal(0, 20), alone()
    first, second = (RandomK(0.25).encode(value, LAYOUT, {}, context) for _ in range(2))
    assert same_bits(first.packet[0], RandomK(0.25).encode(value, LAYOUT, {}, alone()).packet[0])
    assert not torch.equal(first.packet[0], second.packet[0])


def test_values_are_sent_as_they_are_and_none_twice() -> None:
    value = normal(0, 20)
    indices, values = RandomK(0.25).encode(value, LAYOUT, {}, alone()).packet
    assert len(set(indices.tolist())) == 5
    assert torch.equal(values, value[indices.long()])


def test_every_element_is_equally_likely() -> None:
    context, counts = alone(), torch.zeros(20)
    for _ in range(2000):
        counts += RandomK(0.25).encode(torch.ones(20), LAYOUT, {}, context).sent
    assert (counts / 2000 - 0.25).abs().max() < 0.05  # five standard deviations
