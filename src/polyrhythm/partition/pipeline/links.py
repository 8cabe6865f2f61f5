"""Sends and receives what micro-batches on routes need: values over cuts, from one seat to another, and parts of batches."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import partial
from typing import Any, Protocol

import torch
from torch import Tensor

from polyrhythm.errors import WorkloadError
from polyrhythm.partition.pipeline.batch import BatchKey
from polyrhythm.partition.pipeline.boundary import Boundary, Crossing, Encoding
from polyrhythm.partition.pipeline.itinerary import Content, Itinerary, RoutedMessage
from polyrhythm.partition.pipeline.mail import Mail
from polyrhythm.partition.pipeline.routes import StageSeat
from polyrhythm.partition.pipeline.seats import Seats
from polyrhythm.partition.pipeline.values import LONGEST, Outline, gradients_of, outline_of, tensors_of, wanted_gradients

HEADER = Outline(((1 + LONGEST,),), (torch.int64,), True)
"""What is sent before a value: the number of samples in its batch, and its outline."""
SHARE = Outline(((1,),), (torch.float64,), True)
"""A share of a batch as it is sent."""
Tensors = tuple[Tensor, ...]


class LinkedBatch(Protocol):
    """What links know of a batch."""

    @property
    def key(self) -> BatchKey:
        """What tells it from others."""

    @property
    def samples(self) -> int:
        """Their number."""


class Links:
    """The ways from this rank's seat to others and back; each has the state of a boundary at its ends.

    Values come with their outlines, since a seat that was not given a batch does not know of which kind its micro-batches are.
    """

    def __init__(self, seats: Seats, mail: Mail, boundary: Boundary, seed: int) -> None:
        self._seats, self.mail, self._boundary, self._seed = seats, mail, boundary, seed
        self._encodings: dict[tuple[int, StageSeat, StageSeat], Encoding] = {}
        self._outlines: dict[Hashable, Outline] = {}
        self._itinerary = Itinerary({}, {}, seats.stages, seats.replicas)
        self._receive: dict[Content, Callable[[BatchKey, StageSeat, RoutedMessage], Tensors]] = {
            Content.INPUTS: self._receive_whole,
            Content.TARGETS: self._receive_targets,
            Content.VALUE: self._receive_value,
            Content.GRADIENT: self._receive_gradient,
        }

    def errors(self) -> dict[str, float]:
        """The relative squared errors of what this rank has sent over each link in the last training step."""
        return {
            f"{'activations' if after[0] > before[0] else 'gradients'} over cut {cut} to replica {after[1]}": each.error()
            for (cut, before, after), each in self._encodings.items()
            if before == self._seats.own
        }

    @property
    def kept(self) -> int:
        """The bytes that boundaries remember at this rank."""
        return sum(each.kept for each in self._encodings.values())

    def begin(self, kind: str, number: int, itinerary: Itinerary, results: Callable[[int, int], Tensors]) -> None:
        """Note what comes in a step of this itinerary; `results` receives those of so many micro-batches from a coordinate."""
        self._itinerary, own = itinerary, self._seats.own
        for source in self._seats.every:
            if source == own or source in itinerary.lost:
                continue
            for target, parcel in itinerary.sent(source):
                if target == own:
                    receive: Callable[[], Tensors] = partial(self._of_parcel, kind, number, source, parcel)
                    if parcel.content is Content.RESULT:
                        receive = partial(results, self._seats.rank(source), len(itinerary.done(source, parcel.sample[0])))
                    self.mail.expect(parcel.name(kind, number), self._seats.rank(source), receive)

    def _of_parcel(self, kind: str, number: int, source: StageSeat, parcel: RoutedMessage) -> Tensors:
        return self._receive[parcel.content]((kind, number, parcel.sample[0]), source, parcel)

    def _send(self, key: BatchKey, parcel: RoutedMessage, tensors: Tensors, target: StageSeat) -> None:
        self.mail.send(parcel.name(key[0], key[1]), tensors, self._seats.rank(target))

    def _take(self, key: BatchKey, parcel: RoutedMessage, source: StageSeat) -> Tensors:
        return self.mail.take(parcel.name(key[0], key[1]), self._seats.rank(source))

    def _way(self, before: StageSeat, after: StageSeat) -> Encoding:
        """One end of a link, in its direction."""
        cut = min(before[0], after[0])
        if (cut, before, after) not in self._encodings:
            make = self._boundary.activations if after[0] > before[0] else self._boundary.gradients
            self._encodings[cut, before, after] = make(cut, self._seed)
        return self._encodings[cut, before, after]

    def _at(self, key: BatchKey, micro: int, stage: int) -> StageSeat:
        return stage, self._itinerary.paths[key[2], micro][stage]

    def give(self, batch: LinkedBatch, target: StageSeat, parcel: RoutedMessage, value: Any, share: float) -> None:
        """Send the inputs or the targets of a micro-batch, these with their share of the batch."""
        about = [header(batch, outline_of(value))]
        if parcel.content is Content.TARGETS:
            about.append(torch.tensor([share], dtype=torch.float64, device=self.mail.device))
        self._send(batch.key, parcel, tuple(each.to(self.mail.device) for each in (*about, *tensors_of(value))), target)

    def inputs(self, batch: LinkedBatch, micro: int) -> Any:
        """The inputs of a micro-batch of another replica."""
        about, *tensors = self._given(batch, Content.INPUTS, micro)
        return read(batch, about).value(tuple(tensors))

    def targets(self, batch: LinkedBatch, micro: int) -> tuple[Any, float]:
        """The targets of a micro-batch of another replica, and their share of the batch."""
        about, share, *tensors = self._given(batch, Content.TARGETS, micro)
        return read(batch, about).value(tuple(tensors)), share.item()

    def _given(self, batch: LinkedBatch, content: Content, micro: int) -> Tensors:
        stage = self._seats.own[0]
        return self._take(batch.key, RoutedMessage(content, (batch.key[2], micro), stage), self._itinerary.giver(batch.key[2], stage))

    def _receive_whole(self, key: BatchKey, source: StageSeat, parcel: RoutedMessage) -> Tensors:
        rank = self._seats.rank(source)
        [about] = self.mail.receive(rank, HEADER)
        return about, *self.mail.receive(rank, Outline.read(about[1:]))

    def _receive_targets(self, key: BatchKey, source: StageSeat, parcel: RoutedMessage) -> Tensors:
        rank = self._seats.rank(source)
        [about] = self.mail.receive(rank, HEADER)
        return about, *self.mail.receive(rank, SHARE), *self.mail.receive(rank, Outline.read(about[1:]))

    def send_value(self, batch: LinkedBatch, micro: int, stage: int, value: Any) -> None:
        """Send what `stage` made to the stage after it."""
        target, outline = self._at(batch.key, micro, stage + 1), outline_of(value)
        if batch.key[0] == "step":
            self._outlines[*batch.key, micro, stage] = outline  # of the gradients that come back
        wires = self._way(self._seats.own, target).pack(tensors_of(value), crossing(batch.key, micro))
        tensors = header(batch, outline).to(self.mail.device), *wires
        self._send(batch.key, RoutedMessage(Content.VALUE, (batch.key[2], micro), stage + 1), tensors, target)

    def take_value(self, batch: LinkedBatch, micro: int, stage: int) -> Any:
        """What the stage before `stage` made."""
        source = self._at(batch.key, micro, stage - 1)
        about, *wires = self._take(batch.key, RoutedMessage(Content.VALUE, (batch.key[2], micro), stage), source)
        outline = read(batch, about)
        found = self._way(source, self._seats.own).unpack(tuple(wires), outline, crossing(batch.key, micro))
        return outline.value(found)

    def _receive_value(self, key: BatchKey, source: StageSeat, parcel: RoutedMessage) -> Tensors:
        rank = self._seats.rank(source)
        [about] = self.mail.receive(rank, HEADER)
        wires = self._way(source, self._seats.own).wires(Outline.read(about[1:]), crossing(key, parcel.sample[1]))
        return about, *self.mail.receive(rank, wires)

    def send_gradient(self, batch: LinkedBatch, micro: int, stage: int, inputs: Tensors) -> None:
        """Send the gradients of the inputs of `stage` to the stage before it; what has none gets zeros."""
        target = self._at(batch.key, micro, stage - 1)
        wires = self._way(self._seats.own, target).pack(wanted_gradients(inputs), crossing(batch.key, micro))
        self._send(batch.key, RoutedMessage(Content.GRADIENT, (batch.key[2], micro), stage - 1), wires, target)

    def take_gradient(self, batch: LinkedBatch, micro: int, stage: int) -> Tensors:
        """The gradients of the outputs of `stage` that can have any."""
        source = self._at(batch.key, micro, stage + 1)
        wires = self._take(batch.key, RoutedMessage(Content.GRADIENT, (batch.key[2], micro), stage), source)
        outline = gradients_of(self._outlines.pop((*batch.key, micro, stage)))
        return self._way(source, self._seats.own).unpack(wires, outline, crossing(batch.key, micro))

    def _receive_gradient(self, key: BatchKey, source: StageSeat, parcel: RoutedMessage) -> Tensors:
        outline = gradients_of(self._outlines[*key, parcel.sample[1], parcel.stage])
        wires = self._way(source, self._seats.own).wires(outline, crossing(key, parcel.sample[1]))
        return self.mail.receive(self._seats.rank(source), wires)

    def tell(self, key: BatchKey, target: StageSeat, parcel: RoutedMessage, tensors: Tensors) -> None:
        """Send results."""
        self._send(key, parcel, tuple(each.to(self.mail.device) for each in tensors), target)

    def told(self, key: BatchKey, replica: int) -> Tensors:
        """The results that a replica of the last stage tells this one."""
        stage, own = self._seats.own
        return self._take(key, RoutedMessage(Content.RESULT, (own, replica), stage), (self._seats.stages - 1, replica))


def header(batch: LinkedBatch, outline: Outline) -> Tensor:
    """What is sent before a value of that outline."""
    return torch.cat([torch.tensor([batch.samples]), outline.numbers()])


def read(batch: LinkedBatch, about: Tensor) -> Outline:
    """The outline in a header. Raises WorkloadError for a batch of another size: means over replicas would weigh them differently."""
    if about[0] != batch.samples:
        raise WorkloadError(
            f"Replica {batch.key[2]} has a batch of {about[0]} samples, and another one of {batch.samples}: give the replicas of stages "
            "batches of one size where micro-batches have routes, and leave out an incomplete last one."
        )
    return Outline.read(about[1:])


def crossing(key: BatchKey, micro: int) -> Crossing:
    """Which value crosses a cut: draws are those of the micro-batch's number in its own replica, on whatever route it is."""
    return Crossing(key[0], key[1], micro)
