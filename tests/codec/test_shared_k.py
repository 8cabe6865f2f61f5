"""SharedK by hand."""

from __future__ import annotations

import torch

from polyrhythm.codec import SharedK
from polyrhythm.core.protocols.requests import AllReduceRequest

from .aggregation import LAYOUT, CollectiveClient, alone, normal, same_bits, total


def test_all_send_the_same_elements_and_others_in_the_next_round() -> None:
    client, chosen = CollectiveClient(SharedK(0.2), LAYOUT, 3), []
    for step in range(3):
        values = [normal(10 * step + rank, LAYOUT.numel) for rank in range(3)]
        aggregated = client.round(values)
        places = aggregated[0].sent != 0
        assert places.sum() == 13
        for value, one in zip(values, aggregated, strict=True):
            assert same_bits(one.sent[places], value[places])
            assert not one.sent[~places].any()
        assert same_bits(aggregated[0].total[places], total(values)[places])
        chosen.append(places)
    assert not torch.equal(chosen[0], chosen[1])
    assert client.questions == [AllReduceRequest] * 3


def test_no_index_is_sent() -> None:
    codec = SharedK(0.2)
    request = next(codec.aggregate(normal(0, LAYOUT.numel), LAYOUT, codec.initial(LAYOUT), alone(LAYOUT)))
    assert isinstance(request, AllReduceRequest)
    assert request.value.shape == (13,)
