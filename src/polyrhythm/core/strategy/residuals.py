"""What the channels of a part have not sent of the values that they were given, and the worker that sends it when the crew has changed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from polyrhythm.core.protocols.offers import Waiting
from polyrhythm.core.protocols.topology import Channel, kept_back, residual_left
from polyrhythm.core.strategy.local_part import LocalPart
from polyrhythm.core.trees import StateTree


def residuals_kept(channels: Sequence[Channel], local: LocalPart) -> list[Tensor]:
    """What each channel of this worker has not sent (numel,), where it continues from a donor's state.

    Nothing of exchanges in groups, in which another worker may exchange for this one from now on.
    """
    return [] if local.inner else [kept_back(channel, local.parameters.layout.numel) for channel in channels]


def waiting_in(channel: Channel, local: LocalPart) -> list[Sequence[Any]]:
    """What this worker has sent for sums that have not come; with learning rates as for the number of workers at the beginning."""
    waiting = () if channel.offers.sums is None else channel.offers.sums.waiting()
    return [[*_times(each, 1 / local.optimizer.factor)] for each in waiting]


def send_again(channel: Channel, local: LocalPart, waiting: Sequence[Sequence[Any]]) -> None:
    """Have the channel send again what is `waiting`, but for sums that have come where the worker continues from."""
    if channel.offers.sums is not None:
        channel.offers.sums.send_again([_times(Waiting(*each), local.optimizer.factor) for each in waiting])


def _times(waiting: Waiting, factor: float) -> Waiting:
    return waiting._replace(rates=tuple(rate * factor for rate in waiting.rates))


def residuals_left(channels: Sequence[Channel], local: LocalPart, state: StateTree) -> list[Tensor]:
    """What each channel of a worker that has left had not sent (numel,), from its exported state; `channels` have that state afterwards."""
    exported = [*(each["channel"] for each in state["inner"]), *state["local"]["beside"], state["channel"]]
    return [residual_left(*each, local.parameters.layout.numel) for each in zip(channels, exported, strict=True)]


def inherit(channels: Sequence[Channel], residuals: Sequence[Tensor]) -> None:
    """Have each channel send its residual (numel,) later, if there are any."""
    for channel, residual in zip(channels if residuals else (), residuals, strict=True):
        channel.inherit(residual)
