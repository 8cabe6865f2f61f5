"""What is under way on an axis is not taken for what other operations send."""

from __future__ import annotations

from typing import Any

import torch

from polyrhythm.partition.place import Place

from .ranks import on_ranks


def test_an_exchange_does_not_receive_what_was_sent_before_it() -> None:
    def program(place: Place, rank: int) -> Any:
        axis = place.axis("pp")
        if rank == 0:
            under_way = axis.send_to(torch.full((3,), 7.0), 1)
            axis.exchange({1: torch.ones(2)}, {}, torch.ones(0))
            return under_way.wait()
        exchanged = axis.exchange({}, {0: (2,)}, torch.ones(0))[0]
        return exchanged, axis.receive_from(0, (3,), torch.ones(0)).wait()

    sent, (exchanged, received) = on_ranks(program, pp=2)
    assert torch.equal(exchanged, torch.ones(2))
    assert torch.equal(received, sent)
