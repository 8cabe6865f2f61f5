"""Weights in few bits that several processes write to without locks: in C where that was built, with numpy elsewhere."""

from __future__ import annotations

try:
    from polyrhythm.core.shared_memory.native_fixed_point import read_into, subtract_nearest, subtract_stochastically
except ModuleNotFoundError as missing:  # no C compiler was at hand at the installation
    if missing.name != "polyrhythm.core.shared_memory._fixed_point":
        raise
    from polyrhythm.core.shared_memory.portable_fixed_point import read_into, subtract_nearest, subtract_stochastically

__all__ = ["read_into", "subtract_nearest", "subtract_stochastically"]
