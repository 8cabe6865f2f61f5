"""The inner loops of codecs: in C where that was built, with numpy and torch elsewhere.

The sparse and the few-bits codecs call them from `encode` and `decode`.
"""

from __future__ import annotations

try:
    from polyrhythm.codec.kernels.native import (
        above,
        bits_above,
        bits_not_below,
        bound_of_largest,
        choose,
        column_sums,
        not_below,
        pack_signs,
        rounded,
        unpack_signs,
    )
except ModuleNotFoundError as missing:  # there was no C compiler at installation
    if missing.name != "polyrhythm.codec.kernels._kernels":
        raise
    from polyrhythm.codec.kernels.portable import (
        above,
        bits_above,
        bits_not_below,
        bound_of_largest,
        choose,
        column_sums,
        not_below,
        pack_signs,
        rounded,
        unpack_signs,
    )

__all__ = [
    "above",
    "bits_above",
    "bits_not_below",
    "bound_of_largest",
    "choose",
    "column_sums",
    "not_below",
    "pack_signs",
    "rounded",
    "unpack_signs",
]
