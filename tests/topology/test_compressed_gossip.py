"""Compressed differences to remembered copies: nothing that is lost is lost for long, and the mean stays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from endpoints import context_of, worker_end
from schedules import Schedule
from torch import Tensor
from toy import Toy, weights

from polyrhythm.codec import MEMBERS, Clipped, ErrorFeedback, Identity, OneBit, TopK
from polyrhythm.consistency import LocalSteps
from polyrhythm.core.kernel.names import worker
from polyrhythm.core.protocols.codec import Codec
from polyrhythm.core.protocols.topology import InitialState
from polyrhythm.core.protocols.traits import Payload
from polyrhythm.core.strategy import Strategy
from polyrhythm.core.tensors import Layout
from polyrhythm.core.weights.state import ModelState
from polyrhythm.errors import CompositionError
from polyrhythm.local_rules import TrackedGradients
from polyrhythm.merge import Mean
from polyrhythm.topology import CompressedGossip, Gossip, MetropolisHastings, RingGraph
from polyrhythm.topology.graphs.mixing_weights import matrix

LAYOUT = Layout(("w",), ((3, 4),))
WORKERS = 5
PACKETS = [codec for codec in MEMBERS if Gossip().traits.provides >= codec.traits.requires and Payload.UPDATE in codec.traits.payloads]
FITTING = [codec for codec in PACKETS if not (codec.traits.keeps or codec.traits.transforms)]


def mixed(codec: Codec, gamma: float, rounds: int) -> tuple[Tensor, Tensor, list[Any]]:
    """What the workers had, what they have after so many exchanges without steps, and their channels."""
    strategy = Strategy(consistency=LocalSteps(1), topology=CompressedGossip(gamma=gamma), codec=codec)
    schedule, draw, channels = Schedule(4), np.random.default_rng(4), list[Any]()
    given = torch.from_numpy(draw.normal(size=(WORKERS, LAYOUT.numel))).float()
    states = [ModelState(torch.zeros(LAYOUT.numel), LAYOUT, Mean(), context_of(WORKERS), None) for _ in given]

    async def live(channel: Any, state: ModelState, mine: Tensor) -> None:
        (await channel.establish(InitialState(state, ""))).apply(state)
        state.adopt(mine)
        for clock in range(1, rounds + 1):
            (await channel.exchange(state.weights, clock, (0.1,))).apply(state)

    for rank, (state, mine) in enumerate(zip(states, given, strict=True)):
        channels.append(strategy.topology.channel(strategy.agreement, worker_end(schedule.port(worker(rank)), WORKERS, 0, 4)))
        schedule.start(worker(rank), live(channels[-1], state, mine))
    assert schedule.run()
    schedule.close()
    return given, torch.stack([state.weights for state in states]), channels


@pytest.mark.parametrize("codec", FITTING, ids=repr)
def test_the_mean_stays_and_all_remember_the_same_whatever_a_codec_loses(codec: Codec) -> None:
    given, have, channels = mixed(codec, 0.3, 5)
    torch.testing.assert_close(have.mean(0), given.mean(0), rtol=0, atol=1e-5)
    copies = torch.stack([channel.copy for channel in channels])
    mixing = torch.from_numpy(matrix(RingGraph(), MetropolisHastings(), WORKERS)).float()
    for rank, channel in enumerate(channels):
        torch.testing.assert_close(channel.taken, copies[rank] - mixing[rank] @ copies, rtol=0, atol=1e-4)


def test_workers_come_together_although_a_tenth_is_sent_at_a_time() -> None:
    given, have, _ = mixed(TopK(0.1), 0.3, 150)
    assert (have - have.mean(0)).norm() < 0.01 * (given - given.mean(0)).norm()


def test_without_compression_and_with_whole_steps_it_is_weighted_gossip() -> None:
    plain = Strategy(consistency=LocalSteps(1), topology=CompressedGossip(), codec=Identity())
    torch.testing.assert_close(weights(Toy(), 5, plain), weights(Toy(), 5, "decentralized"), rtol=0, atol=1e-6)


def test_codecs_that_keep_what_they_do_not_send_are_refused_and_trackers_are_compressed_too() -> None:
    for codec in (ErrorFeedback(TopK(0.1)), Clipped(1.0, TopK(0.1))):
        with pytest.raises(CompositionError, match=r"in which all is that was not sent before.*instead of (ErrorFeedback|Clipped) use"):
            Strategy(consistency=LocalSteps(1), topology=CompressedGossip(), codec=codec)
    tracked = Strategy(consistency=LocalSteps(1), topology=CompressedGossip(gamma=0.3), codec=OneBit(), local=TrackedGradients())
    assert weights(Toy(epochs=1), 3, tracked).isfinite().all()


@pytest.mark.parametrize("gamma", [0.0, 1.5, float("nan"), True])
def test_a_step_that_does_not_mix_is_refused(gamma: float) -> None:
    with pytest.raises(CompositionError, match="give a step above 0"):
        CompressedGossip(gamma=gamma)
