"""The inner loops of LightLDA: in C where that was built, with numpy elsewhere, of equal results."""

from __future__ import annotations

try:
    from polyrhythm.workloads.topics.native import alias, draw
except ModuleNotFoundError as missing:  # there was no C compiler at installation
    if missing.name != "polyrhythm.workloads.topics._light_lda":
        raise
    from polyrhythm.workloads.topics.portable import alias, draw

__all__ = ["alias", "draw"]
