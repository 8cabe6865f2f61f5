"""Send the gaps between indices, in as many bits as they need."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from polyrhythm.codec.sparse.sparse import Entries, SparseCodec, spread
from polyrhythm.codec.sparse.threshold import Threshold
from polyrhythm.core.protocols.codec import Encoded
from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.protocols.requests import Packet
from polyrhythm.core.protocols.traits import CodecTraits
from polyrhythm.core.settings import checked
from polyrhythm.core.tensors import Layout, State
from polyrhythm.errors import CompositionError

_Bits = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
@checked
class GapCoded(SparseCodec):
    """The words of `inner` with their indices as gaps in Golomb-Rice codes (Strom, 2015, section 3; Golomb, 1966; Rice, 1979).

    An index takes 31 of the 32 bits that Threshold sends. Where one element in n is sent, the gap to the one before takes about
    log₂ n + 1.5, and the sign one. A packet: three streams, one after the other in bytes that begin with their highest bit, the last
    padded with zeros: for each gap g (elements skipped) ⌊g / 2ᵏ⌋ ones and a zero; the lowest k bits of each gap, the highest first;
    a one for each minus. Then how many elements there are, and k, which makes the streams shortest, as int32 (int64 for values of float64).
    The decoded values, and what is lost, are those of `inner`.
    """

    width: ClassVar = 2
    """The streams, and the numbers that say how to read them."""

    inner: Threshold

    def __post_init__(self) -> None:
        if not isinstance(self.inner, Threshold):  # no choice between pieces: enforces the annotation without a type checker
            raise CompositionError(f"GapCoded({self.inner!r}) has no words to shorten: give it Threshold(tau).")

    @property
    def traits(self) -> CodecTraits:
        """The inner codec's traits; its packets are not ranges."""
        return replace(self.inner.traits, ranged=False)

    def initial(self, layout: Layout) -> State:
        return self.inner.initial(layout)

    def encode(self, value: Tensor, layout: Layout, state: State, context: ExchangeContext) -> Encoded:
        """The inner codec's packet, with its indices as gaps."""
        encoded = self.inner.encode(value, layout, state, context)
        return Encoded(_shortened(encoded.packet[0]), encoded.sent, encoded.state)

    def entries(self, packet: Packet) -> Entries:
        return self.inner.entries((_words(packet),))

    def decode(self, packet: Packet, layout: Layout) -> Tensor:
        return spread(self.entries(packet), layout)


def _shortened(words: Tensor) -> Packet:
    indices = (words & torch.iinfo(words.dtype).max).long().numpy()
    gaps = np.diff(indices, prepend=-1) - 1
    k = _best_width(gaps)
    streams = np.concatenate([_in_unary(gaps >> k), _lowest(gaps, k).reshape(-1), words.numpy() < 0])
    return torch.from_numpy(np.packbits(streams)), torch.tensor([len(gaps), k], dtype=words.dtype)


def _words(packet: Packet) -> Tensor:
    streams, how = packet
    count, k = how.tolist()
    bits = np.unpackbits(streams.numpy()).view(np.bool_)
    ends = _ends(bits, count)
    start = int(ends[-1]) + 1 if count else 0
    low, signs = bits[start : start + count * k].reshape(count, k), bits[start + count * k :][:count]
    high = np.diff(ends, prepend=-1) - 1
    gaps = (high << k) + low @ (1 << np.arange(k - 1, -1, -1))
    words = torch.from_numpy(np.cumsum(gaps + 1) - 1).to(how.dtype)
    return words | torch.from_numpy(signs).to(how.dtype) * torch.iinfo(how.dtype).min


def _best_width(gaps: NDArray[np.int64]) -> int:
    """The k of the shortest streams, which is near the logarithm of the mean; the least of those that are equally good."""
    if not len(gaps):
        return 0
    near = int(gaps.mean()).bit_length()
    return min(range(max(0, near - 2), near + 1), key=lambda k: int((gaps >> k).sum()) + k * len(gaps))


def _in_unary(numbers: NDArray[np.int64]) -> _Bits:
    """Each number in unary: that many ones, then a zero."""
    bits = np.ones(int(numbers.sum()) + len(numbers), dtype=np.bool_)
    bits[np.cumsum(numbers + 1) - 1] = False
    return bits


def _ends(bits: _Bits, count: int) -> NDArray[np.int64]:
    """The positions of the first `count` zeros."""
    return np.flatnonzero(~bits)[:count]


def _lowest(numbers: NDArray[np.int64], k: int) -> _Bits:
    """The lowest k bits of each number (numbers, k), the highest first."""
    return (numbers[:, None] >> np.arange(k - 1, -1, -1) & 1).astype(np.bool_)
