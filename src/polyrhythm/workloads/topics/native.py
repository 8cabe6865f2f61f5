"""The inner loops of LightLDA in C: see `_light_lda.c`, and `portable.py` for what each of them does."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from polyrhythm.workloads.topics._light_lda import alias as make_alias
from polyrhythm.workloads.topics._light_lda import draw as draw_tokens
from polyrhythm.workloads.topics.documents import Documents
from polyrhythm.workloads.topics.drawing import Counts, Drawing, TokenBatch


def alias(starts: NDArray[np.int64], topics: NDArray[np.int32], keep: NDArray[np.float64], others: NDArray[np.int32]) -> None:
    make_alias(starts.ctypes.data, len(starts) - 1, topics.ctypes.data, keep.ctypes.data, others.ctypes.data)


def draw(part: Drawing, documents: Documents, topics: Counts, batch: TokenBatch, key: int) -> None:
    words, smooth = part.words, part.smooth
    counted = np.zeros(len(part.totals), dtype=np.int32)
    arrays = (
        *(topics, batch.places, batch.rows, documents.bounds, part.counts, part.totals, part.proposed, part.proposed_totals),
        *(words.starts, words.topics, words.keep, words.others, words.mass, smooth.keep, smooth.others, smooth.mass, counted),
    )
    assert all(each.flags.c_contiguous for each in arrays)
    addresses = np.array([each.ctypes.data for each in arrays], dtype=np.uint64)
    first = int(documents.bounds.searchsorted(batch.places[0], "right")) - 1 if len(batch.places) else 0
    numbers = np.array([len(batch.places), len(part.totals), part.cycles, first], dtype=np.int64)
    priors = part.priors
    reals = np.array([priors.alpha, priors.beta, priors.beta * priors.vocabulary])
    draw_tokens(addresses.ctypes.data, numbers.ctypes.data, reals.ctypes.data, key)
