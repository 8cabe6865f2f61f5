"""What the last stage has made of micro-batches, as it is told to the replicas that gave them: losses, or outputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from polyrhythm.partition.pipeline.batch import added, end_to_end
from polyrhythm.partition.pipeline.mail import Mail
from polyrhythm.partition.pipeline.values import LONGEST, Outline, outline_of, tensors_of

Tensors = tuple[Tensor, ...]
NUMBERS = Outline(((LONGEST,),), (torch.int64,), True)
"""An outline as it is sent."""


class Results(Protocol):
    """How results are sent, and made one again."""

    def packed(self, made: Sequence[Any]) -> Tensors:
        """Those of some micro-batches as one message."""

    def receive(self, mail: Mail, source: int, count: int) -> Tensors:
        """That message of `count` micro-batches."""

    def parts(self, tensors: Tensors, count: int) -> list[Any]:
        """The results in that message."""

    def whole(self, parts: Sequence[Any]) -> Any:
        """The result of a batch from all of its micro-batches."""


class LossResults:
    """One number for each."""

    def packed(self, made: Sequence[Any]) -> Tensors:
        return (torch.stack(list(made)).float(),)

    def receive(self, mail: Mail, source: int, count: int) -> Tensors:
        return mail.receive(source, Outline(((count,),), (torch.float32,), True))

    def parts(self, tensors: Tensors, count: int) -> list[Any]:
        return list(tensors[0])

    def whole(self, parts: Sequence[Any]) -> Any:
        return added(parts)


class OutputResults:
    """Tensors of any shape, each with its outline."""

    def packed(self, made: Sequence[Any]) -> Tensors:
        return tuple(each for value in made for each in (outline_of(value).numbers(), *tensors_of(value)))

    def receive(self, mail: Mail, source: int, count: int) -> Tensors:
        found: list[Tensor] = []
        for _ in range(count):
            [about] = mail.receive(source, NUMBERS)
            found += [about, *mail.receive(source, Outline.read(about))]
        return tuple(found)

    def parts(self, tensors: Tensors, count: int) -> list[Any]:
        rest, found = list(tensors), list[Any]()
        for _ in range(count):
            outline = Outline.read(rest.pop(0))
            found.append(outline.value(tuple(rest.pop(0) for _ in outline.shapes)))
        return found

    def whole(self, parts: Sequence[Any]) -> Any:
        return end_to_end(parts)
