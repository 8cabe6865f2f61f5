"""What codecs keep when workers leave and join: their own residual, that of those who have left, and what all have in common."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from polyrhythm.codec import MEMBERS, ErrorFeedback, Identity, LowRank, MomentumCorrection, Striped, TopK
from polyrhythm.core.kernel.group import Group
from polyrhythm.core.protocols.codec import Aggregated, Aggregation, Codec, inherited, taken_over
from polyrhythm.core.protocols.requests import CollectiveRequest
from polyrhythm.core.tensors import State

from .aggregation import LAYOUT, CollectiveClient, normal, same_bits
from .conservation import check, steps_of
from .test_conservation import sparse_weights

every_codec = pytest.mark.parametrize("codec", MEMBERS, ids=str)


def crew(codec: Codec, workers: int, states: list[State] | None = None) -> CollectiveClient:
    """Workers that exchange by `codec`, and begin with `states`."""
    client = CollectiveClient(codec, LAYOUT, workers, weights=sparse_weights)
    client.contexts = [context.changed(rates=lambda: (0.25,)) for context in client.contexts]
    client.states = states or client.states
    return client


def rounds(client: CollectiveClient, seed: int) -> None:
    """Four exchanges, each of which obeys the codec's law, and gives all workers the same bits."""
    for number in range(4):
        values = [normal(seed + 10 * number + rank, LAYOUT.numel) for rank in range(len(client.states))]
        before, aggregated = client.states, client.round(values)
        contexts = [client.at_this_clock(context) for context in client.contexts]
        for step in steps_of(values, LAYOUT, before, aggregated, contexts, 1e-5):
            check(client.codec, step)
        assert all(same_bits(one.total, aggregated[0].total) for one in aggregated)


@every_codec
def test_after_four_workers_three_and_then_five_exchange_and_nothing_is_lost(codec: Codec) -> None:
    four = crew(codec, 4)
    rounds(four, 0)
    own = taken_over(codec, four.states, [LAYOUT] * 4, own=True)
    left = codec.residual(own[3], LAYOUT)
    own[:1] = inherited(codec, own[:1], [LAYOUT], [left])
    three = crew(codec, 3, own[:3])
    three.clock = four.clock
    torch.testing.assert_close(codec.residual(own[0], LAYOUT), codec.residual(four.states[0], LAYOUT) + left)
    assert all(
        same_bits(codec.residual(now, LAYOUT), codec.residual(then, LAYOUT)) for now, then in zip(own[1:3], four.states[1:3], strict=True)
    )
    rounds(three, 100)
    five = crew(codec, 5, [*three.states, *taken_over(codec, three.states[:1] * 2, [LAYOUT] * 2, own=False)])
    five.clock = three.clock
    assert not any(codec.residual(state, LAYOUT).any() for state in five.states[3:])
    rounds(five, 200)


@every_codec
def test_what_is_inherited_is_added_exactly_and_first_by_a_worker_that_has_sent_nothing(codec: Codec) -> None:
    client = crew(codec, 2)
    rounds(client, 0)
    one, other = (codec.residual(state, LAYOUT) for state in client.states)
    assert other.any() == codec.traits.keeps
    fresh = codec.joined(client.states[0], LAYOUT)
    for state, residual in [(fresh, one), (codec.inherit(fresh, one, LAYOUT), other)]:
        assert torch.equal(codec.residual(codec.inherit(state, residual, LAYOUT), LAYOUT), codec.residual(state, LAYOUT) + residual)


def test_a_newcomer_has_the_common_factor_of_low_rank_and_no_momentum_of_its_donor() -> None:
    low_rank, momentum = crew(ErrorFeedback(LowRank(2)), 2), crew(MomentumCorrection(TopK(0.1)), 2)
    rounds(low_rank, 0)
    rounds(momentum, 0)
    joined = low_rank.codec.joined(low_rank.states[1], LAYOUT)
    assert all(torch.equal(joined[name], low_rank.states[0][name]) for name in joined if name.startswith("q/"))
    assert low_rank.states[1]["residual"].any()
    assert not joined["residual"].any()
    assert momentum.states[0]["momentum"].any()
    assert not momentum.codec.joined(momentum.states[0], LAYOUT)["momentum"].any()


def test_the_owner_of_another_stripe_sends_what_it_kept_of_its_old_one() -> None:
    codec = Striped(ErrorFeedback(TopK(0.2)))
    client = crew(codec, 2)
    rounds(client, 0)
    client.contexts = [context.changed(group=Group.of_workers(2, 1 - rank)) for rank, context in enumerate(client.contexts)]
    client.contexts.reverse()
    client.states.reverse()
    rounds(client, 50)


@pytest.mark.parametrize("codec", [each for each in MEMBERS if not each.traits.recodes], ids=str)
def test_what_is_kept_is_known_when_all_was_sent_before_the_others_have_responded(codec: Codec) -> None:
    """A worker that is interrupted in an exchange which the others complete has the residual that it would have had."""
    before = crew(codec, 3)
    rounds(before, 0)
    values = [normal(77 + rank, LAYOUT.numel) for rank in range(3)]

    def aggregations() -> list[Aggregation]:
        client = crew(codec, 3, before.states)
        client.clock = before.clock
        contexts = map(client.at_this_clock, client.contexts)
        return [codec.aggregate(*each) for each in zip(values, [LAYOUT] * 3, before.states, contexts, strict=True)]

    complete, interrupted = aggregations(), aggregations()[1]
    responses: list[Any] = [None] * 3
    ended = list[Aggregated]()
    request: Any = None
    while True:
        requests = list[CollectiveRequest]()
        for aggregation, response in zip(complete, responses, strict=True):
            try:
                requests.append(aggregation.send(response))
            except StopIteration as end:
                ended.append(end.value)
        if ended:
            break
        request, responses = interrupted.send(responses[1]), before._respond(requests)
    with pytest.raises(StopIteration) as caught:
        interrupted.send(request.repeated(before.contexts[1].group))
    assert same_bits(codec.residual(caught.value.value.state, LAYOUT), codec.residual(ended[1].state, LAYOUT))


def test_a_codec_that_keeps_nothing_refuses_to_inherit() -> None:
    with pytest.raises(AssertionError, match="keeps nothing back"):
        Identity().inherit({}, torch.ones(LAYOUT.numel), LAYOUT)
