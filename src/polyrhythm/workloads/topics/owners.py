"""Which worker has which documents: a pure function of the crew, which moves few documents when it changes."""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from polyrhythm.workloads.topics.portable import uniform

_LOAD = 1.05
"""A worker takes documents until it has this much of a mean share."""


def owners(lengths: NDArray[np.int64], members: Sequence[str]) -> NDArray[np.int32]:
    """The place among `members` of the owner of each document, of so many tokens (documents,).

    Consistent hashing with bounded loads (Mirrokni et al., 2018): a document goes to the first worker of an order of its own that has room,
    the longest documents first. Who leaves gives documents to all others, and who joins gets some of each; few others move.
    """
    preference = np.stack([uniform(zlib.crc32(name.encode()), np.arange(len(lengths))) for name in members])
    order = np.argsort(preference, axis=0)
    room = [math.ceil(_LOAD * lengths.sum() / len(members))] * len(members)
    found = np.empty(len(lengths), dtype=np.int32)
    for document in np.argsort(-lengths, kind="stable").tolist():
        length = int(lengths[document])
        chosen = next((k for k in order[:, document].tolist() if room[k] >= length), -1)
        if chosen < 0:  # long documents, and no worker has room for a whole one
            chosen = int(np.argmax(room))
        room[chosen] -= length
        found[document] = chosen
    return found
