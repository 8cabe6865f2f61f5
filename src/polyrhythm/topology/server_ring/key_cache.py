"""Lists of keys are sent once, and then their hash."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from dataclasses import replace

import torch
from torch import Tensor

from polyrhythm.core.kernel.message import Message
from polyrhythm.core.tensors import as_bytes

_SHORTEST = 16
"""The least number of keys in a list that is worth a hash."""
_MARK = "="


class SentKeys:
    """A worker's side: the lists of keys that each server was sent last, up to `most` of them."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._sent: dict[str, OrderedDict[str, None]] = {}
        self._last: tuple[Tensor, str] = (torch.empty(0), "")

    def without(self, server: str, message: Message) -> Message:
        """`message` with the hash of its list of keys in the place of the list, where `server` has had that."""
        place = _place_of(message)
        if place is None:
            return message
        key = self._hash(message.tensors[place])
        sent = self._sent.setdefault(server, OrderedDict())
        known = key in sent
        sent[key] = None
        sent.move_to_end(key)
        while len(sent) > self.most:
            sent.popitem(last=False)
        if not known:
            return message
        left = (*message.tensors[:place], *message.tensors[place + 1 :])
        return replace(message, text=f"{_MARK}{place} {key}", tensors=left)

    def _hash(self, keys: Tensor) -> str:
        if keys is not self._last[0]:
            self._last = (keys, hash_of(keys))
        return self._last[1]


class KnownKeys:
    """A server's side: the last `most` lists of keys that workers have sent."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._lists: OrderedDict[str, Tensor] = OrderedDict()

    def missing(self, message: Message) -> str:
        """The hash of the list that `message` refers to, where it is not known, or not any more; else empty."""
        if not message.text.startswith(_MARK):
            return ""
        key = message.text.split()[1]
        return "" if key in self._lists else key

    def restored(self, message: Message) -> Message:
        """`message` with its list of keys, which is known."""
        if message.text.startswith(_MARK):
            place, key = message.text.removeprefix(_MARK).split()
            self._lists.move_to_end(key)
            at = int(place)
            return replace(message, text="", tensors=(*message.tensors[:at], self._lists[key], *message.tensors[at:]))
        if (found := _place_of(message)) is not None:
            self.learn(message.tensors[found])
        return message

    def learn(self, keys: Tensor) -> None:
        """Remember a list; the one that was not used for the longest time is forgotten where there are too many."""
        self._lists[hash_of(keys)] = keys
        while len(self._lists) > self.most:
            self._lists.popitem(last=False)


def hash_of(keys: Tensor) -> str:
    """64 bits of the SHA-256 of a list, as text."""
    return hashlib.sha256(as_bytes(keys)).hexdigest()[:16]


def list_in(message: Message, key: str) -> Tensor | None:
    """The list of keys in `message`, if this is its hash."""
    place = _place_of(message)
    return message.tensors[place] if place is not None and hash_of(message.tensors[place]) == key else None


def _place_of(message: Message) -> int | None:
    """The index of the tensor that is a list of keys: the first of int32 in one dimension that is long enough."""
    for place, tensor in enumerate(message.tensors):
        if tensor.dtype == torch.int32 and tensor.dim() == 1 and len(tensor) >= _SHORTEST:
            return place
    return None
