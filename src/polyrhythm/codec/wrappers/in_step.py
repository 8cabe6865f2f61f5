"""Several aggregations at once: their requests are merged, so that many cost no more messages than one."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from itertools import chain
from typing import Any

import torch

from polyrhythm.core.protocols.codec import Aggregated, Aggregation
from polyrhythm.core.protocols.requests import AllGatherRequest, AllReduceRequest, AllToAllRequest, CollectiveRequest, Packet

_Requesting = Generator[CollectiveRequest, Any, dict[int, Any]]


def in_step(aggregations: Sequence[Aggregation]) -> Generator[CollectiveRequest, Any, list[Aggregated]]:
    """Drive `aggregations` to their ends together: the requests that they make at the same time become one of each kind."""
    aggregated: dict[int, Aggregated] = {}
    responses: dict[int, Any] = dict.fromkeys(range(len(aggregations)))
    while responses:
        requests: dict[int, CollectiveRequest] = {}
        for k in sorted(responses):
            try:
                requests[k] = aggregations[k].send(responses[k])
            except StopIteration as end:
                aggregated[k] = end.value
        responses = yield from _perform(requests)
    return [aggregated[k] for k in range(len(aggregations))]


def _perform(requests: Mapping[int, CollectiveRequest]) -> _Requesting:
    reduces = {k: request for k, request in requests.items() if isinstance(request, AllReduceRequest)}
    gathers = {k: request for k, request in requests.items() if isinstance(request, AllGatherRequest)}
    scatters = {k: request for k, request in requests.items() if isinstance(request, AllToAllRequest)}
    responses: dict[int, Any] = {}
    for dtype in dict.fromkeys(request.value.dtype for request in reduces.values()):
        responses |= yield from _reduce({k: request for k, request in reduces.items() if request.value.dtype == dtype})
    if gathers:
        received = yield AllGatherRequest(_joined(request.packet for request in gathers.values()))
        responses |= _shares({k: len(request.packet) for k, request in gathers.items()}, received)
    if scatters:
        each = zip(*(request.packets for request in scatters.values()), strict=True)
        received = yield AllToAllRequest([_joined(packets) for packets in each])
        responses |= _shares({k: len(request.packets[0]) for k, request in scatters.items()}, received)
    return responses


def _reduce(requests: Mapping[int, AllReduceRequest]) -> _Requesting:
    values = [request.value for request in requests.values()]
    total = yield AllReduceRequest(torch.cat([value.reshape(-1) for value in values]))
    parts = torch.split(total, [value.numel() for value in values])
    return {k: part.view(value.shape) for k, part, value in zip(requests, parts, values, strict=True)}


def _joined(packets: Any) -> Packet:
    return tuple(chain.from_iterable(packets))


def _shares(widths: Mapping[int, int], packets: Sequence[Packet]) -> dict[int, list[Packet]]:
    """Each aggregation's part of every packet; `widths` are those of this worker's packets, the same at all workers."""
    shares, start = {}, 0
    for k, width in widths.items():
        shares[k] = [packet[start : start + width] for packet in packets]
        start += width
    return shares
