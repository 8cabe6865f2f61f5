"""What a rank of a pipeline sends to other stages and receives from them, by an axis.

Messages from one rank to another arrive in the order in which they are sent, which the receiver knows, as it knows the sender's actions. So
they need no tags, and one that is needed late is kept until then.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from polyrhythm.partition.axis import Axis, Pending
from polyrhythm.partition.pipeline.values import LONGEST, Outline, outline_of

Expected = tuple[Hashable, Callable[[], tuple[Tensor, ...]]]
"""The name of a message, and what receives it."""


class Mail:
    """The messages of the rank on `axis`. By the clock `now`, it has `waited` so many seconds for others."""

    def __init__(self, axis: Axis, device: torch.device, now: Callable[[], float] = float) -> None:
        self._axis, self.device, self.now = axis, device, now
        self.waited = 0.0
        self._expected: defaultdict[int, deque[Expected]] = defaultdict(deque)
        self._here: dict[Hashable, tuple[Tensor, ...]] = {}
        self._outlines: dict[Hashable, Outline] = {}
        self._sending: list[Pending] = []

    def send(self, name: Hashable, tensors: tuple[Tensor, ...], target: int) -> None:
        """Begin to send a message, or put it down here if it is for this rank."""
        if target == self._axis.index:
            self._here[name] = tensors
            return
        with self._waiting():
            self._sending += [self._axis.send_to(each, target) for each in tensors if each.numel()]

    def expect(self, name: Hashable, source: int, receive: Callable[[], tuple[Tensor, ...]]) -> None:
        """Say what comes next from `source`, and how it is received."""
        if source != self._axis.index:
            self._expected[source].append((name, receive))

    def take(self, name: Hashable, source: int) -> tuple[Tensor, ...]:
        """The message of that name; those that the source has sent before it are received first."""
        while name not in self._here:
            found, receive = self._expected[source].popleft()
            with self._waiting():
                self._here[found] = receive()
        return self._here.pop(name)

    @contextmanager
    def _waiting(self) -> Iterator[None]:
        since = self.now()
        yield
        self.waited += self.now() - since

    def receive(self, source: int, outline: Outline) -> tuple[Tensor, ...]:
        """The tensors of that outline, from `source`."""
        like = [torch.empty(0, dtype=kind, device=self.device) for kind in outline.types]
        pending = [
            self._axis.receive_from(source, shape, each) if torch.Size(shape).numel() else None
            for shape, each in zip(outline.shapes, like, strict=True)
        ]
        return tuple(
            each.new_empty(shape) if one is None else one.wait() for one, each, shape in zip(pending, like, outline.shapes, strict=True)
        )

    def knows(self, key: Hashable, outline: Outline) -> None:
        """Note an outline that need not be sent."""
        self._outlines[key] = outline

    def tell(self, key: Hashable, value: Any, target: int) -> None:
        """Send the outline of the first value of a kind; the others have the same."""
        if key in self._outlines:
            return
        self._outlines[key] = outline_of(value)
        if target != self._axis.index:
            self._sending.append(self._axis.send_to(self._outlines[key].numbers().to(self.device), target))

    def outline(self, key: Hashable, source: int) -> Outline:
        """The outline of values of a kind, which comes before the first of them."""
        if key not in self._outlines:
            like = torch.empty(0, dtype=torch.int64, device=self.device)
            self._outlines[key] = Outline.read(self._axis.receive_from(source, (LONGEST,), like).wait())
        return self._outlines[key]

    def settle(self) -> None:
        """Wait until all that was sent may be written to again."""
        for each in self._sending:
            each.wait()
        self._sending.clear()
