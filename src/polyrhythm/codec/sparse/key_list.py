"""Send values by a list of keys that was sent before, with a bit for each key that says if its value is zero."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from polyrhythm.codec.sparse.sparse import Entries, SparseCodec, check_size, spread
from polyrhythm.core.protocols.codec import Encoded
from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.protocols.requests import Packet
from polyrhythm.core.protocols.traits import CodecTraits, Payload
from polyrhythm.core.tensors import Layout, State

_KEYS = "keys"
_WORDS = {2: torch.int16, 4: torch.int32, 8: torch.int64}


@dataclass(frozen=True, slots=True)
class KeyList(SparseCodec):
    """The keys of all elements that were ever not zero, a bit for each that is set if it is not zero now, and the values of those.

    Key-value pairs with zeros compressed (Li et al., OSDI 2014, sections 3.2 and 5.1). The list of keys, int32, grows with the data that a
    worker sees and then stays the same, so that over `ServerRing` it is sent once, and then its hash in its place. Lossless, bit for bit:
    -0.0 counts as not zero.
    """

    traits: ClassVar = CodecTraits(frozenset({Payload.GRADIENT, Payload.UPDATE, Payload.ROWS}))
    width: ClassVar = 3
    """Three tensors: keys, bits, and values."""

    def initial(self, layout: Layout) -> State:
        """No keys yet. Raises CompositionError for more than 2³¹ elements."""
        check_size("KeyList", layout)
        return {_KEYS: torch.empty(0, dtype=torch.int32)}

    def encode(self, value: Tensor, layout: Layout, state: State, context: ExchangeContext) -> Encoded:
        """Keys in increasing order; elements that are not zero for the first time are added to the list."""
        there = value.view(_WORDS[value.element_size()]) != 0
        keys = state[_KEYS]
        if int(there.sum()) > int(there[keys].sum()):
            known = there.clone()
            known[keys] = True
            keys = known.nonzero().view(-1).to(torch.int32)
        filled = there[keys]
        bits = torch.from_numpy(np.packbits(filled.numpy()))
        return Encoded((keys, bits, value[keys[filled]]), value, {_KEYS: keys})

    def entries(self, packet: Packet) -> Entries:
        """The elements of a packet that are not zero."""
        keys, bits, values = packet
        filled = torch.from_numpy(np.unpackbits(bits.numpy(), count=len(keys)).astype(bool))
        return keys[filled].long(), values

    def decode(self, packet: Packet, layout: Layout) -> Tensor:
        return spread(self.entries(packet), layout)
