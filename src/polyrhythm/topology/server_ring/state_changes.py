"""A state tree as the changes since an earlier one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from polyrhythm.core.protocols.requests import Packet
from polyrhythm.core.trees import StateTree, copied, separate, unite

_SAME, _ENTRIES, _WHOLE = 0, 1, 2
_WORDS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


class Changes(NamedTuple):
    """`text` has the tree without its tensors, and their names; `modes` how each is sent, and `tensors` what is sent of them."""

    modes: tuple[float, ...]
    text: str
    tensors: Packet


class StateChanges:
    """Keeps the last state. Of the next one, the elements with other bits are sent, or tensors as a whole where that is less."""

    def __init__(self) -> None:
        self._text = ""
        self._tensors: dict[str, Tensor] = {}

    def encode(self, tree: StateTree, whole: bool) -> Changes:
        """The changes to send of `tree`, which is the last state from now on; all of it where it is sent `whole`."""
        text, tensors = separate(tree)
        before = {} if whole else self._tensors
        modes, sent = list[float](), list[Tensor]()
        for name, tensor in tensors.items():
            mode, parts = _difference(before.get(name), tensor)
            modes.append(mode)
            sent.extend(parts)
        self._text, self._tensors = text, tensors
        return Changes(tuple(modes), json.dumps([text, list(tensors)]), tuple(sent))

    def decode(self, changes: Changes) -> None:
        """Take over what was sent."""
        self._text, names = json.loads(changes.text)
        parts = iter(changes.tensors)
        self._tensors = {name: self._received(int(mode), name, parts) for mode, name in zip(changes.modes, names, strict=True)}

    @property
    def tree(self) -> StateTree:
        """A copy of the last state."""
        return copied(unite(self._text, self._tensors))

    def _received(self, mode: int, name: str, parts: Iterator[Tensor]) -> Tensor:
        if mode == _WHOLE:
            return next(parts)
        if mode == _SAME:
            return self._tensors[name]
        places, values = next(parts), next(parts)
        changed = self._tensors[name].clone()
        changed.view(-1)[places.long()] = values
        return changed


def _difference(before: Tensor | None, now: Tensor) -> tuple[float, Packet]:
    if before is None or before.shape != now.shape or before.dtype != now.dtype:
        return _WHOLE, (now,)
    word = _WORDS[now.element_size()]
    places = (before.view(-1).view(word) != now.view(-1).view(word)).nonzero().view(-1)
    if not len(places):
        return _SAME, ()
    if len(places) * (4 + now.element_size()) >= now.nbytes:
        return _WHOLE, (now,)
    return _ENTRIES, (places.to(torch.int32), now.view(-1)[places])
