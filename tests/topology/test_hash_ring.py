"""Consistent hashing: few keys move when a server joins or leaves, and no server has far more than its share."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from polyrhythm.core.protocols.division import Divided
from polyrhythm.core.tensors import Layout
from polyrhythm.errors import CompositionError
from polyrhythm.topology import HashRing

LAYOUT = Layout(("embedding", "w", "bias"), ((3000, 2), (40, 50), (2000,)))


def owners(ring: HashRing, servers: int) -> Tensor:
    """The server of each element (numel,)."""
    divided = Divided.of(LAYOUT, ring.parts(LAYOUT, servers))
    return divided.join([torch.full((part.numel,), float(server)) for server, part in enumerate(divided.parts)])


@pytest.mark.parametrize("virtual", [1, 4, 16, 64])
def test_a_server_that_joins_takes_keys_and_none_moves_between_others(virtual: int) -> None:
    ring = HashRing(virtual)
    for servers in range(1, 12):
        before, after = owners(ring, servers), owners(ring, servers + 1)
        moved = before != after
        assert (after[moved] == servers).all(), "read backwards: who leaves gives its keys away, and no other does"
        assert moved.float().mean() <= (2 if virtual >= 16 else 6) / (servers + 1)


def test_with_many_points_shares_are_nearly_equal() -> None:
    for servers in (2, 4, 8):
        shares = owners(HashRing(256), servers).long().bincount(minlength=servers) / LAYOUT.numel
        assert 0.75 / servers < shares.min()
        assert shares.max() < 1.25 / servers


def test_a_server_has_no_more_ranges_than_points_and_tensors() -> None:
    for virtual in (1, 8):
        divided = Divided.of(LAYOUT, HashRing(virtual).parts(LAYOUT, 5))
        assert all(len(stretches) <= virtual + 1 for stretches in divided.stretches)


def test_a_ring_without_points_is_refused() -> None:
    with pytest.raises(CompositionError, match="give 1 or more"):
        HashRing(0)
