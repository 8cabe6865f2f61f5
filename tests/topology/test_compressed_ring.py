"""Rings that round on every hop: as the laws of the algorithms, but for what the hop loses."""

from __future__ import annotations

import pytest
import torch
from collectives import BANDWIDTH, LATENCY, run_collective, values

from polyrhythm.core.kernel.effects import NativeReduce, Rounding
from polyrhythm.core.kernel.group import Group
from polyrhythm.core.processes.collectives.nccl import Nccl
from polyrhythm.topology import ALGORITHMS, ROUNDING, CompressedRing, EightBits, Fastest, Ring, Truncated
from polyrhythm.topology.collective.algorithms.hops import Hop

each_ring = pytest.mark.parametrize("ring", ROUNDING, ids=repr)


@each_ring
@pytest.mark.parametrize("workers", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("numel", [0, 3, 200])
def test_everyone_gets_the_same_bits_of_a_sum_that_is_rounded_on_every_hop(ring: CompressedRing, workers: int, numel: int) -> None:
    given = values(workers, numel)
    responses, ending = run_collective(workers, lambda context, group: ring.reduce(context.port, group, given[group.rank], "7"))
    total = torch.stack(given).sum(0)
    for (response,) in responses:
        assert torch.equal(response, responses[0][0])
        largest = torch.stack(given).abs().sum(0).max() if numel else 0.0
        assert ((response - total).abs() <= workers * largest / 127).all()
    assert (ending.bytes_sent, ending.messages_sent) == ring.traffic(given[0], workers, "7")
    if workers == 1:
        assert torch.equal(responses[0][0], given[0])


@each_ring
@pytest.mark.parametrize("workers", [2, 5])
def test_time_matches_the_closed_form_within_one_percent(ring: CompressedRing, workers: int) -> None:
    given = torch.zeros(1_000_000)
    _, ending = run_collective(workers, lambda context, group: ring.reduce(context.port, group, given, "t"))
    assert ending.seconds == pytest.approx(ring.seconds(given.numel() * 4, workers, LATENCY, BANDWIDTH), rel=0.01)


@each_ring
def test_the_values_that_were_given_are_not_written_to(ring: CompressedRing) -> None:
    given = values(3, 40)
    before = [value.clone() for value in given]
    run_collective(3, lambda context, group: ring.reduce(context.port, group, given[group.rank], "t"))
    assert all(torch.equal(a, b) for a, b in zip(given, before, strict=True))


def test_truncation_cuts_the_lower_half_of_a_float_off() -> None:
    part = torch.tensor([1.0, -1.0, 1.0 + 2**-7, 1.0 + 2**-8, 3.14159265, 0.0, -0.0])
    sent = Truncated().decode(Truncated().encode(part))
    assert sent.tolist() == [1.0, -1.0, 1.0 + 2**-7, 1.0, 3.140625, 0.0, -0.0]
    assert (sent.view(torch.int32) & 0xFFFF).eq(0).all()


def test_eight_bits_are_127ths_of_the_largest() -> None:
    words, largest = EightBits().encode(torch.tensor([0.5, -2.0, 1.0, 0.0]))
    assert words.tolist() == [32, -127, 64, 0]
    assert largest.tolist() == [2.0]
    assert EightBits().decode((words, largest)).tolist() == pytest.approx([32 * 2 / 127, -2.0, 64 * 2 / 127, 0.0])
    assert not EightBits().decode(EightBits().encode(torch.zeros(3))).any()


@pytest.mark.parametrize("hop", [Truncated(), EightBits()], ids=repr)
def test_a_hop_keeps_the_type_of_the_values(hop: Hop) -> None:
    assert hop.decode(hop.encode(torch.randn(5, dtype=torch.float64))).dtype == torch.float64


def test_an_algorithm_declares_what_its_sums_lose() -> None:
    assert {algorithm.rounding for algorithm in ALGORITHMS} == {Rounding.NONE}
    assert CompressedRing(Truncated()).rounding is Rounding.BY_ELEMENT
    assert CompressedRing(EightBits()).rounding is Rounding.BY_PART
    assert Fastest(0.001, 1e6, (Ring(), CompressedRing(Truncated()))).rounding is Rounding.BY_ELEMENT


@each_ring
def test_no_communicator_takes_the_place_of_a_sum_that_is_rounded_on_its_way(ring: CompressedRing) -> None:
    group = Group.of_workers(2, 0)
    nccl = Nccl(_Usable(), "workers", group.members, lambda nbytes, messages: None)  # type: ignore[arg-type]
    assert nccl.reduce(NativeReduce(torch.ones(4), "1", group, ring)) is None


class _Usable:
    """Communicators of a machine with GPUs, none of which is to be formed."""

    usable = True
