"""Every worker holds the whole model."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Replicate:
    """Pure data parallelism: one full replica a worker."""
