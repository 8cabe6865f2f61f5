"""Responses as messages: one member of a group may exchange for all, and send the others the response to apply."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from polyrhythm.core.kernel.message import Message
from polyrhythm.core.protocols.merge import Contribution
from polyrhythm.core.protocols.responses import (
    AdoptWeights,
    ApplyContributions,
    ApplyOneByOne,
    ApplyOnTop,
    MixWeights,
    RebaseUpdate,
    ReplaceSent,
    Response,
    StepLocally,
)

Parts = tuple[tuple[float, ...], tuple[Tensor, ...]]
"""Numbers, and tensors (numel,)."""


@dataclass(frozen=True, slots=True)
class _Form:
    """The conversion of responses of one class to numbers and tensors, and back."""

    pack: Callable[[Any], Parts]
    unpack: Callable[[Sequence[float], Sequence[Tensor]], Response]


def _pack_contributions(response: ApplyContributions | ApplyOneByOne | ApplyOnTop) -> Parts:
    numbers: list[float] = []
    for each in response.contributions:
        numbers += [float(len(each.rates)), float(each.count), float(each.staleness), *each.rates]
    return tuple(numbers), tuple(each.value for each in response.contributions)


def _unpack_contributions(numbers: Sequence[float], tensors: Sequence[Tensor]) -> list[Contribution]:
    found, at = list[Contribution](), 0
    for tensor in tensors:
        rates = int(numbers[at])
        found.append(Contribution(tensor, int(numbers[at + 1]), int(numbers[at + 2]), tuple(numbers[at + 3 : at + 3 + rates])))
        at += 3 + rates
    return found


def _pack_replacement(response: ReplaceSent) -> Parts:
    numbers, (summed,) = _pack_contributions(ApplyContributions([response.summed]))
    return numbers, (summed, response.sent)


def _unpack_replacement(numbers: Sequence[float], tensors: Sequence[Tensor]) -> ReplaceSent:
    summed, sent = tensors
    return ReplaceSent(sent, *_unpack_contributions(numbers, [summed]))


_FORMS: Mapping[str, _Form] = {
    "ApplyContributions": _Form(_pack_contributions, lambda numbers, tensors: ApplyContributions(_unpack_contributions(numbers, tensors))),
    "ApplyOnTop": _Form(_pack_contributions, lambda numbers, tensors: ApplyOnTop(_unpack_contributions(numbers, tensors))),
    "ApplyOneByOne": _Form(_pack_contributions, lambda numbers, tensors: ApplyOneByOne(_unpack_contributions(numbers, tensors))),
    "AdoptWeights": _Form(lambda response: ((), (response.weights,)), lambda numbers, tensors: AdoptWeights(tensors[0])),
    "MixWeights": _Form(lambda response: ((), tuple(response.theirs)), lambda numbers, tensors: MixWeights(tensors)),
    "StepLocally": _Form(
        lambda response: ((), () if response.fresh is None else (response.fresh,)),
        lambda numbers, tensors: StepLocally(tensors[0] if tensors else None),
    ),
    "RebaseUpdate": _Form(
        lambda response: ((), (response.update,) if response.fresh is None else (response.update, response.fresh)),
        lambda numbers, tensors: RebaseUpdate(tensors[1] if len(tensors) > 1 else None, tensors[0]),
    ),
    "ReplaceSent": _Form(_pack_replacement, _unpack_replacement),
}


def packed(response: Response, topic: str) -> Message:
    """`response` as a message."""
    name = type(response).__name__
    numbers, tensors = _FORMS[name].pack(response)
    return Message(topic, numbers, name, tuple(tensor.cpu().contiguous() for tensor in tensors))


def unpacked(message: Message) -> Response:
    """The response that `message` carries."""
    return _FORMS[message.text].unpack(message.numbers, message.tensors)


def joined(messages: Sequence[Message]) -> Response:
    """The response whose tensors are those of `messages` end to end: each message has the response for one range of the vector."""
    first = messages[0]
    columns = zip(*(message.tensors for message in messages), strict=True)
    return _FORMS[first.text].unpack(first.numbers, [torch.cat(column) for column in columns])
