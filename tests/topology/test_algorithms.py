"""Laws of the all-reduce algorithms, over all of them."""

from __future__ import annotations

import pytest
import torch
from collectives import BANDWIDTH, LATENCY, run_collective, values

from polyrhythm.core.collectives.broadcast import broadcast
from polyrhythm.core.protocols.algorithm import Algorithm, all_gather, all_to_all
from polyrhythm.topology import ALGORITHMS

each_algorithm = pytest.mark.parametrize("algorithm", ALGORITHMS, ids=repr)


@each_algorithm
@pytest.mark.parametrize("workers", [1, 2, 3, 4, 5, 6, 7, 8, 11, 16])
@pytest.mark.parametrize("numel", [0, 1, 3, 1000])
def test_everyone_gets_the_same_bits_of_the_sum(algorithm: Algorithm, workers: int, numel: int) -> None:
    given = values(workers, numel)
    responses, _ = run_collective(workers, lambda context, group: algorithm.reduce(context.port, group, given[group.rank], "t"))
    expected = torch.stack(given).double().sum(0)
    for (response,) in responses:
        assert torch.equal(response, responses[0][0])
        torch.testing.assert_close(response.double(), expected, rtol=1e-5, atol=1e-5)


@each_algorithm
@pytest.mark.parametrize("workers", [2, 3, 6, 8, 13])
def test_messages_and_bytes_match_the_closed_form(algorithm: Algorithm, workers: int) -> None:
    given = values(workers, 101)
    _, ending = run_collective(workers, lambda context, group: algorithm.reduce(context.port, group, given[group.rank], "7"))
    assert (ending.bytes_sent, ending.messages_sent) == algorithm.traffic(given[0], workers, "7")


@each_algorithm
@pytest.mark.parametrize("workers", [*range(2, 18), 24, 31, 32, 33, 48, 63, 64])
def test_time_matches_the_closed_form_within_one_percent(algorithm: Algorithm, workers: int) -> None:
    given = torch.zeros(1_000_000)
    _, ending = run_collective(workers, lambda context, group: algorithm.reduce(context.port, group, given, "t"))
    expected = algorithm.seconds(given.numel() * 4, workers, LATENCY, BANDWIDTH)
    assert ending.seconds == pytest.approx(expected, rel=0.01)


@each_algorithm
def test_the_order_of_simultaneous_events_changes_no_bit(algorithm: Algorithm) -> None:
    given = values(6, 50)
    plain, _ = run_collective(6, lambda context, group: algorithm.reduce(context.port, group, given[group.rank], "t"))
    for ties in range(5):
        shuffled, _ = run_collective(
            6, lambda context, group: algorithm.reduce(context.port, group, given[group.rank], "t"), shuffle_ties=ties
        )
        assert torch.equal(shuffled[0][0], plain[0][0])


@each_algorithm
def test_the_values_that_were_given_are_not_written_to(algorithm: Algorithm) -> None:
    given = values(5, 40)
    before = [value.clone() for value in given]
    run_collective(5, lambda context, group: algorithm.reduce(context.port, group, given[group.rank], "t"))
    assert all(torch.equal(a, b) for a, b in zip(given, before, strict=True))


@pytest.mark.parametrize("workers", [1, 2, 3, 5, 8])
def test_gather_brings_everyones_packet_in_rank_order(workers: int) -> None:
    given = values(workers, 4)

    async def question(context, group):  # type: ignore[no-untyped-def]
        return [packet[0] for packet in await all_gather(context.port, group, (given[group.rank],), "g")]

    responses, _ = run_collective(workers, question)
    for response in responses:
        assert all(torch.equal(a, b) for a, b in zip(response, given, strict=True))


@pytest.mark.parametrize("workers", [1, 2, 3, 5, 8])
def test_scatter_brings_each_what_was_meant_for_it(workers: int) -> None:
    async def question(context, group):  # type: ignore[no-untyped-def]
        mine = [(torch.tensor([group.rank, to]),) for to in range(workers)]
        return [packet[0] for packet in await all_to_all(context.port, group, mine, "s")]

    responses, _ = run_collective(workers, question)
    for rank, response in enumerate(responses):
        assert [part.tolist() for part in response] == [[sender, rank] for sender in range(workers)]


@pytest.mark.parametrize("workers", [1, 2, 3, 4, 7, 8, 9, 64])
def test_broadcast_takes_one_message_a_worker_and_logarithmic_time(workers: int) -> None:
    source = torch.arange(1_000_000.0)
    zero = torch.zeros(1_000_000)
    responses, ending = run_collective(
        workers, lambda context, group: broadcast(context.port, group, source if group.rank == 0 else zero, "b")
    )
    assert all(torch.equal(response[0], source) for response in responses)
    assert ending.messages_sent == workers - 1
    assert ending.seconds <= (workers - 1).bit_length() * (LATENCY + 4e6 / BANDWIDTH) * 1.001
