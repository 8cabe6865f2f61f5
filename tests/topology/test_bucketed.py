"""How a model is cut into buckets, and what cannot be cut."""

from __future__ import annotations

from math import prod

import pytest
import torch
from collectives import run_collective, values
from endpoints import context_of, worker_end

from polyrhythm.codec import Identity
from polyrhythm.consistency import BulkSynchronous, LocalSteps
from polyrhythm.core.protocols.topology import Agreement, InitialState
from polyrhythm.core.protocols.traits import Payload
from polyrhythm.core.strategy import Strategy
from polyrhythm.core.tensors import Layout
from polyrhythm.core.weights.state import ModelState
from polyrhythm.errors import CompositionError
from polyrhythm.merge import Mean
from polyrhythm.topology import ALGORITHMS, AllReduce, Alone, Bucketed, Server
from polyrhythm.topology.collective.bucketed import cut

LAYOUT = Layout(("a", "b", "c", "d", "e"), ((3, 4), (4,), (5, 4), (), (2,)))


@pytest.mark.parametrize("nbytes", [1, 8, 12, 13, 80, 100, 140, 10_000])
def test_buckets_are_whole_parameters_the_last_first_and_full_when_they_reach_their_size(nbytes: int) -> None:
    buckets = cut(LAYOUT, nbytes, 4)
    assert [name for bucket in reversed(buckets) for name in bucket.names] == list(LAYOUT.names)
    assert [shape for bucket in reversed(buckets) for shape in bucket.shapes] == list(LAYOUT.shapes)
    for bucket in buckets[:-1]:
        assert 4 * bucket.numel >= nbytes
        assert 4 * sum(prod(shape) for shape in bucket.shapes[1:]) < nbytes
    assert 4 * sum(prod(shape) for shape in buckets[-1].shapes[1:]) < nbytes


@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=repr)
@pytest.mark.parametrize("workers", [1, 2, 3, 5])
def test_a_value_sent_in_buckets_is_the_sum_of_all(algorithm, workers: int) -> None:  # type: ignore[no-untyped-def]
    given = values(workers, LAYOUT.numel)
    agreement = Agreement(Payload.GRADIENT, BulkSynchronous(), Identity(), Mean())

    async def exchange(context, group):  # type: ignore[no-untyped-def]
        channel = Bucketed(AllReduce(algorithm), nbytes=12).channel(agreement, worker_end(context.port, workers))
        model_state = ModelState(torch.zeros(LAYOUT.numel), LAYOUT, Mean(), context_of(workers), None)
        await channel.establish(InitialState(model_state, ""))
        assert sum(state.numel() for _, state in channel.states()) == LAYOUT.numel
        responses = [await channel.exchange(given[group.rank], clock, (0.1,)) for clock in (1, 2)]
        return [response.contributions[0].value for response in responses]

    responses, _ = run_collective(workers, exchange)
    for first, second in responses:
        torch.testing.assert_close(first, sum(given, torch.zeros(LAYOUT.numel)))
        assert torch.equal(first, second)
        assert torch.equal(first, responses[0][0])


@pytest.mark.parametrize("wrapped", [Server(), Alone()], ids=repr)
def test_only_an_all_reduce_can_be_cut(wrapped) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(CompositionError, match=r"bucket by bucket.*Give it AllReduce\(...\), or use the other topology bare\."):
        Bucketed(wrapped)


def test_a_bucket_has_a_size() -> None:
    with pytest.raises(CompositionError, match=r"nbytes=0.*give 1 byte or more"):
        Bucketed(nbytes=0)


def test_only_gradients_are_there_before_the_step() -> None:
    with pytest.raises(
        CompositionError, match=r"LocalSteps is for updates.* and Bucketed for gradients\. .*instead of Bucketed use AllReduce"
    ):
        Strategy(topology=Bucketed(), consistency=LocalSteps(4))
