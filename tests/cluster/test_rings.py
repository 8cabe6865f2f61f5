"""Rings of devices, against enumeration of all of them."""

from __future__ import annotations

import math
from itertools import combinations, permutations
from random import Random

import pytest

from polyrhythm.cluster.device_topology import DeviceTopology
from polyrhythm.cluster.rings import pick_ring, ring_bandwidth, ring_order
from polyrhythm.errors import CompositionError

BOXES = {
    "cube-mesh": DeviceTopology.cube_mesh(),
    "pairs": DeviceTopology.groups([2, 2, 2, 2], 50e9, 10e9),
    "quads": DeviceTopology.groups([4, 4], 50e9, 10e9),
}


def a_topology(seed: int, devices: int) -> DeviceTopology:
    random = Random(seed)
    links = [(a, b, random.choice((10.0, 25.0, 50.0))) for a, b in combinations(range(devices), 2)]
    return DeviceTopology.links(devices, links, 1.0)


def slowest(topology: DeviceTopology, order: tuple[int, ...]) -> float:
    return min(topology.bandwidth[a][b] for a, b in zip(order, [*order[1:], order[0]], strict=True))


@pytest.mark.parametrize("seed", range(12))
def test_the_best_ring_of_every_subset_is_that_of_all_orders(seed: int) -> None:
    topology = a_topology(seed, 6)
    for count in range(2, 6):
        for chosen in combinations(range(6), count):
            best = max(slowest(topology, (chosen[0], *rest)) for rest in permutations(chosen[1:]))
            mask = sum(1 << device for device in chosen)
            assert ring_bandwidth(topology, mask) == best
            assert slowest(topology, ring_order(topology, mask)) == best
    assert ring_bandwidth(topology, 1) == math.inf


def test_a_single_device_does_not_break_a_pair() -> None:
    assert pick_ring(BOXES["pairs"], 0b00001101, 1) == 0b00000001  # device 1 is gone, so 0 has no partner left
    assert pick_ring(BOXES["pairs"], 0b11111110, 1) == 0b00000010


def test_a_quad_is_chosen_whole() -> None:
    assert pick_ring(BOXES["quads"], 0b11111000, 4) == 0b11110000
    assert pick_ring(BOXES["quads"], 0b00000111, 4) is None


def test_equal_sets_are_chosen_by_their_numbers() -> None:
    assert pick_ring(BOXES["quads"], 0b11111111, 4) == 0b00001111


def test_sixteen_devices_are_computed_exactly() -> None:
    topology = DeviceTopology.groups([8, 8], 50e9, 10e9)
    assert pick_ring(topology, 0xFF0F, 8) == 0xFF00


def test_the_text_of_nvidia_smi_is_read() -> None:
    text = """\
\tGPU0\tGPU1\tGPU2\tmlx5_0\tCPU Affinity\tNUMA Affinity
GPU0\t X \tNV2\tSYS\tPIX\t0-15\t0
GPU1\tNV2\t X \tPHB\tPIX\t0-15\t0
GPU2\tSYS\tPHB\t X \tSYS\t16-31\t1
mlx5_0\tPIX\tPIX\tSYS\t X
"""
    topology = DeviceTopology.from_smi(text, link=25e9)
    assert topology.bandwidth == ((0.0, 50e9, 6e9), (50e9, 0.0, 10e9), (6e9, 10e9, 0.0))
    with pytest.raises(CompositionError, match="nvidia-smi topo"):
        DeviceTopology.from_smi("no GPUs here")


@pytest.mark.parametrize(
    ("matrix", "words"),
    [(((0.0, 1.0),), "square"), (((0.0, 1.0), (2.0, 0.0)), "both directions"), (((0.0,) * 17,) * 17, "16 are possible")],
)
def test_wrong_topologies_are_refused(matrix: tuple[tuple[float, ...], ...], words: str) -> None:
    with pytest.raises(CompositionError, match=words):
        DeviceTopology(matrix)
