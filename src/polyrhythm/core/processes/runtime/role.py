"""What an actor is in its run."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Role:
    """Its name, the run's secret and seed, its device."""

    name: str
    secret: bytes
    seed: int = 0
    device: str = "cpu"
