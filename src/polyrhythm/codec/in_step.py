"""Several aggregations at once: their questions are put together, so that many cost no more messages than one."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from itertools import chain
from typing import Any

import torch

from polyrhythm.pieces.codec import Aggregated, Aggregation
from polyrhythm.pieces.requests import AllGatherRequest, AllReduceRequest, AllToAllRequest, CollectiveRequest, Packet

_Asking = Generator[CollectiveRequest, Any, dict[int, Any]]


def in_step(aggregations: Sequence[Aggregation]) -> Generator[CollectiveRequest, Any, list[Aggregated]]:
    """Lead `aggregations` to their ends together: what they ask at the same time becomes one question of each kind."""
    told: dict[int, Aggregated] = {}
    responses: dict[int, Any] = dict.fromkeys(range(len(aggregations)))
    while responses:
        questions: dict[int, CollectiveRequest] = {}
        for k in sorted(responses):
            try:
                questions[k] = aggregations[k].send(responses[k])
            except StopIteration as end:
                told[k] = end.value
        responses = yield from _ask(questions)
    return [told[k] for k in range(len(aggregations))]


def _ask(questions: Mapping[int, CollectiveRequest]) -> _Asking:
    reduces = {k: question for k, question in questions.items() if isinstance(question, AllReduceRequest)}
    gathers = {k: question for k, question in questions.items() if isinstance(question, AllGatherRequest)}
    scatters = {k: question for k, question in questions.items() if isinstance(question, AllToAllRequest)}
    responses: dict[int, Any] = {}
    for dtype in dict.fromkeys(question.value.dtype for question in reduces.values()):
        responses |= yield from _reduce({k: question for k, question in reduces.items() if question.value.dtype == dtype})
    if gathers:
        heard = yield AllGatherRequest(_joined(question.packet for question in gathers.values()))
        responses |= _shares({k: len(question.packet) for k, question in gathers.items()}, heard)
    if scatters:
        each = zip(*(question.packets for question in scatters.values()), strict=True)
        heard = yield AllToAllRequest([_joined(packets) for packets in each])
        responses |= _shares({k: len(question.packets[0]) for k, question in scatters.items()}, heard)
    return responses


def _reduce(questions: Mapping[int, AllReduceRequest]) -> _Asking:
    values = [question.value for question in questions.values()]
    total = yield AllReduceRequest(torch.cat([value.reshape(-1) for value in values]))
    parts = torch.split(total, [value.numel() for value in values])
    return {k: part.view(value.shape) for k, part, value in zip(questions, parts, values, strict=True)}


def _joined(packets: Any) -> Packet:
    return tuple(chain.from_iterable(packets))


def _shares(widths: Mapping[int, int], packets: Sequence[Packet]) -> dict[int, list[Packet]]:
    """Each aggregation's part of every packet: the widths are those of one's own, and the same for all."""
    shares, start = {}, 0
    for k, width in widths.items():
        shares[k] = [packet[start : start + width] for packet in packets]
        start += width
    return shares
