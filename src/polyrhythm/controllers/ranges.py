"""The number of ranges that fits the bandwidth, so that a packet is sent while the next step is computed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from polyrhythm.controllers.check import check_every
from polyrhythm.core.protocols.controller import ControlledSetting, ControllerTraits, Decision, Measurements
from polyrhythm.core.settings import checked
from polyrhythm.core.tensors import State
from polyrhythm.errors import CompositionError


@dataclass(frozen=True, slots=True)
@checked
class SharedRanges:
    """One number for all receivers, p = ⌈bytes to all / (bandwidth · seconds of a step)⌉ (Ako; Watcharapichat et al., SoCC 2016).

    Each worker has its own, as in TF.AKO: from its own bandwidth and its own speed.
    """

    every: int = 5
    most: int = 1024

    def __post_init__(self) -> None:
        _check(self, self.every, self.most)

    @property
    def traits(self) -> ControllerTraits:
        """It sets the number of ranges."""
        return ControllerTraits(frozenset({ControlledSetting.RANGES}), self.every)

    def decide(self, measured: Measurements, state: State) -> tuple[Sequence[Decision], State]:
        """The number of ranges, once enough bytes were sent to measure the bandwidth."""
        bandwidth = measured.bandwidths.get("")
        if bandwidth is None:
            return (), state
        wanted = (measured.group_size - 1) * measured.nbytes / (bandwidth * max(measured.mine.seconds, 1e-9))
        return (_decided(wanted, self.most),), state


@dataclass(frozen=True, slots=True)
@checked
class LinkRanges:
    """A number for each receiver, from the bandwidth of the link to it and the worker's own speed (Hong and Chandra, 2018).

    Over `LinkExchange`, if even `most` ranges are too few, exchanges become rarer: gradients computed while a link is busy are sent with
    the next packet.
    """

    every: int = 5
    most: int = 1024

    def __post_init__(self) -> None:
        _check(self, self.every, self.most)

    @property
    def traits(self) -> ControllerTraits:
        """It sets the number of ranges for each receiver."""
        return ControllerTraits(frozenset({ControlledSetting.RANGES}), self.every)

    def decide(self, measured: Measurements, state: State) -> tuple[Sequence[Decision], State]:
        """A number for each receiver to which enough bytes were sent to measure the bandwidth."""
        step = max(measured.mine.seconds, 1e-9)
        wanted = {name: measured.nbytes / (rate * step) for name, rate in measured.bandwidths.items() if name}
        return [_decided(parts, self.most, name) for name, parts in wanted.items()], state


def _decided(wanted: float, most: int, receiver: str = "") -> Decision:
    """`wanted` rounded up, from 1 to `most`."""
    return Decision(ControlledSetting.RANGES, min(most, max(1, math.ceil(wanted))), receiver)


def _check(piece: object, every: int, most: int) -> None:
    check_every(piece, every)
    if most < 1:
        raise CompositionError(f"{piece!r} allows fewer than one range: give most=1, which is the whole vector, or more.")
