"""A vector over servers: cut and joined again, whatever the division."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from polyrhythm.core.protocols.division import Divided, Division
from polyrhythm.core.tensors import Layout
from polyrhythm.errors import CompositionError
from polyrhythm.topology import ByKey, ByLayer, EvenRows, HashRing

shapes = st.lists(st.one_of(st.tuples(), st.tuples(st.integers(0, 9)), st.tuples(st.integers(0, 5), st.integers(0, 7))), max_size=6)


@pytest.mark.parametrize("division", [EvenRows(), ByKey(), ByKey(1), ByKey(6), HashRing(), HashRing(1), ByLayer()], ids=repr)
@settings(max_examples=40, deadline=None)
@given(shapes=shapes, servers=st.integers(1, 5))
def test_parts_make_up_the_vector(division: Division, shapes: list[tuple[int, ...]], servers: int) -> None:
    layout = Layout(tuple(f"p[{k}]" for k in range(len(shapes))), tuple(shapes))
    divided = Divided.of(layout, division.parts(layout, servers))
    flat = torch.arange(layout.numel, dtype=torch.float32)
    pieces = divided.cut(flat)
    assert [piece.numel() for piece in pieces] == [part.numel for part in divided.parts]
    assert len(pieces) == servers
    assert torch.equal(divided.join(pieces), flat)
    if division == EvenRows():
        assert divided.consecutive
        assert all(torch.equal(a, b) for a, b in zip(pieces, layout.cut(flat, divided.parts), strict=True))


def test_tensors_go_whole_by_their_key_and_large_ones_in_rows_to_all() -> None:
    layout = Layout(("a", "b", "c", "d"), ((4, 2), (3,), (2, 2), (5,)))
    parts = ByKey(largest=8).parts(layout, 3)
    # 9973 mod 3 is 1: b, c and d are keys 1, 2 and 3
    assert [part.names for part in parts] == [("a[0:1]", "d"), ("a[1:3]", "b"), ("a[3:4]", "c")]
    assert torch.equal(Divided.of(layout, parts).cut(torch.arange(20.0))[1], torch.tensor([2.0, 3.0, 4.0, 5.0, 8.0, 9.0, 10.0]))


def test_parts_of_a_part_are_found_by_their_names() -> None:
    stripe = Layout(("w[4:8]", "v[0:2]"), ((4, 3), (2,)))
    parts = stripe.split(2)
    assert torch.equal(Divided.of(stripe, parts[::-1]).join(parts_of(stripe, parts)[::-1]), torch.arange(14.0))


def parts_of(layout: Layout, parts: list[Layout]) -> list[torch.Tensor]:
    return layout.cut(torch.arange(float(layout.numel)), parts)


def test_a_size_that_is_none_is_refused() -> None:
    with pytest.raises(CompositionError, match="cut all tensors"):
        ByKey(0)


def test_layers_go_whole_to_the_server_that_has_least() -> None:
    names = ("stem.weight", "stem.bias", "body.weight", "body.bias", "head.weight", "temperature")
    layout = Layout(names, ((5, 2), (5,), (6, 3), (6,), (4, 3), ()))
    parts = ByLayer().parts(layout, 3)
    assert [part.names for part in parts] == [names[2:4], names[:2], names[4:]]
    assert [part.numel for part in ByLayer().parts(layout, 2)] == [25, 27]
    alone = ByLayer().parts(layout, 5)
    assert sorted(part.numel for part in alone) == [0, 1, 12, 15, 24], "a server for each layer, and one that has nothing to do"
